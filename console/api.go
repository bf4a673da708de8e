package console

import (
	"errors"
	"iter"
	"net/http"

	"github.com/keyturn/keyturn/console/internal/poll"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/lockjson"
	"github.com/keyturn/keyturn/internal/waits"
)

// serveLocks answers with the rows of the page Locks, with its filters, as the command "keyturn ls -o json"
// prints keys.
func (c *Console) serveLocks(w http.ResponseWriter, r *http.Request) {
	if c.silent(w, c.fresh(r.Context(), "")) {
		return
	}
	f := parseFilter(r.URL.Query())
	rows, _ := c.poll.Rows(f.passes, f.Limit)
	asJSON(w)
	_ = lockjson.WriteArray(w, infos(rows)) // a viewer that has gone needs no answer
}

func infos(rows []*poll.Row) iter.Seq2[driver.LockInfo, error] {
	return func(yield func(driver.LockInfo, error) bool) {
		for _, r := range rows {
			if !yield(r.Info(), nil) {
				return
			}
		}
	}
}

// silent answers if the store says nothing now, because of err or anyway. Pages say how old what they show is. Here it
// would look like the present.
func (c *Console) silent(w http.ResponseWriter, err error) bool {
	st := c.poll.Status()
	switch {
	case err != nil:
	case st.Err != nil:
		err = st.Err
	case c.isOld(st):
		err = errNoAnswer
	default:
		return false
	}
	http.Error(w, "the store does not say who has which key: "+err.Error(), http.StatusServiceUnavailable)
	return true
}

var errNoAnswer = errors.New("it has not answered yet")

// serveLock answers with one key, which may be free.
func (c *Console) serveLock(w http.ResponseWriter, r *http.Request) {
	key := r.URL.Query().Get("key")
	if driver.ValidateKey(key) != nil {
		http.Error(w, "there is no such key", http.StatusBadRequest)
		return
	}
	key = c.source.known(key)
	if c.silent(w, c.fresh(r.Context(), key)) {
		return
	}
	info := driver.LockInfo{Key: key}
	if row := c.poll.Row(key); row != nil {
		info = row.Info()
	}
	asJSON(w)
	_ = lockjson.Write(w, lockjson.Of(info)) // as above
}

// graphJSON is the wait-for graph.
type graphJSON struct {
	Waits     []waitJSON   `json:"waits"`
	Deadlocks [][]waitJSON `json:"deadlocks"` // circles of requests, each of which waits for the next one
	Hints     [][]waitJSON `json:"hints"`     // circles of processes, which may be deadlocks
}

type waitJSON struct {
	Key      string           `json:"key"`
	WaitedMS int64            `json:"waited_ms"`
	Waiter   lockjson.Process `json:"waiter"`
	Holder   lockjson.Process `json:"holder"`
	Token    uint64           `json:"token"` // of the holder
	WaiterOf lockjson.Trace   `json:"waiter_trace"`
	HolderOf lockjson.Trace   `json:"holder_trace"`
}

func (c *Console) serveGraph(w http.ResponseWriter, r *http.Request) {
	if c.silent(w, c.fresh(r.Context(), "")) {
		return
	}
	g := waits.Build(waits.Pairs(c.poll.Contended()))
	answer := graphJSON{Waits: waitsJSON(g.Waits), Deadlocks: circlesJSON(g.Deadlocks), Hints: circlesJSON(g.Hints)}
	asJSON(w)
	_ = lockjson.Write(w, answer) // as above
}

func circlesJSON(all []waits.Circle) [][]waitJSON {
	circles := make([][]waitJSON, len(all))
	for i, c := range all {
		circles[i] = waitsJSON(c.Waits)
	}
	return circles
}

func waitsJSON(all []waits.Wait) []waitJSON {
	out := make([]waitJSON, len(all))
	for i, w := range all {
		out[i] = waitJSON{
			Key: w.Key, WaitedMS: w.Waiter.Waited.Milliseconds(), Waiter: lockjson.ProcessOf(w.Waiter.Owner), Holder: lockjson.ProcessOf(w.Holder.Owner),
			Token: w.Holder.Token, WaiterOf: lockjson.TraceOf(w.Waiter.Trace), HolderOf: lockjson.TraceOf(w.Holder.Trace),
		}
	}
	return out
}

func asJSON(w http.ResponseWriter) { w.Header().Set("Content-Type", "application/json") }
