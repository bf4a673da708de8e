package console

import (
	"context"
	"errors"
	"html/template"
	"iter"
	"net/http"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/keyturn/keyturn/console/internal/poll"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/who"
)

// Source is what a console shows and breaks. A core.Engine is one.
type Source interface {
	Inspect(ctx context.Context, key string) (driver.LockInfo, error)
	ListAll(ctx context.Context, prefix string) iter.Seq2[driver.LockInfo, error]
	ForceRelease(ctx context.Context, key, reason string, only ...driver.Holder) ([]driver.Holder, error)
	Forget(ctx context.Context, key, reason string) (bool, error)
	// ShowKey returns key as it may be shown: core.WithKeyFilter.
	ShowKey(key string) string
}

// Console is the handler. It is safe for concurrent use. Make one with [New]; the zero value is not usable.
type Console struct {
	cfg     config
	source  *names
	poll    *poll.Poller
	views   views
	colours who.Colours
	// templates are the package's, with this console's colours.
	templates *template.Template
	streams   atomic.Int32 // that are open
	mux       *http.ServeMux
	origins   *http.CrossOriginProtection
}

// New makes a console over source. It does no I/O, and has no goroutine while nobody looks, unless
// [WithHistory] is given. [Console.Close] ends it. Source must not be closed before.
//
// The error joins a *driver.OptionError for each option that is wrong.
func New(source Source, opts ...Option) (*Console, error) {
	cfg, err := configure(opts)
	if source == nil || reflect.ValueOf(source).Kind() == reflect.Pointer && reflect.ValueOf(source).IsNil() {
		err = errors.Join(refuse("New", source, "an engine"), err)
	}
	if err != nil {
		return nil, err
	}
	named := newNames(source)
	c := &Console{
		cfg: cfg, source: named, mux: http.NewServeMux(), origins: http.NewCrossOriginProtection(),
		poll: poll.New(named, cfg.interval, cfg.history),
	}
	c.views.cached = make(map[string]*cachedView)
	c.templates = template.Must(templates.Clone()).Funcs(template.FuncMap{"colour": c.colour})
	c.routes()
	return c, nil
}

// Close ends the streams and the poller, and waits for the poller. Pages that are asked for later are
// answered from what was seen.
func (c *Console) Close() error {
	c.poll.Close()
	return nil
}

func (c *Console) routes() {
	for _, p := range c.pages() {
		pattern := "GET /" + p.Name
		if p.Name == "locks" {
			pattern = "GET /{$}"
		}
		c.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { c.servePage(w, r, p, http.StatusOK, nil) })
	}
	c.mux.HandleFunc("GET /events", c.serveEvents)
	c.mux.HandleFunc("GET /api/locks", c.serveLocks)
	c.mux.HandleFunc("GET /api/lock", c.serveLock)
	c.mux.HandleFunc("GET /api/graph", c.serveGraph)
	c.mux.HandleFunc("POST /force", c.operate(c.force))
	c.mux.HandleFunc("POST /forget", c.operate(c.forget))
	for _, a := range assets {
		c.mux.HandleFunc("GET /"+a.name, a.serve)
	}
}

// freshFor bounds how long a request waits for the first look at the store.
const freshFor = time.Second

// fresh has the store looked at, and waits until there is something to show. The error says that nobody knows who has
// key.
func (c *Console) fresh(ctx context.Context, key string) error {
	next := c.poll.Next()
	c.poll.Look(key)
	if c.isOld(c.poll.Status()) {
		timer := time.NewTimer(freshFor)
		defer timer.Stop()
		select {
		case <-next:
		case <-timer.C:
		case <-c.poll.Done():
		case <-ctx.Done():
		}
	}
	if key == "" {
		return nil
	}
	if r := c.poll.Row(key); r != nil && !c.stale(r, time.Now()) {
		return nil
	}
	return c.poll.Refresh(ctx, key)
}

// isOld reports whether what was seen last is no longer the present.
func (c *Console) isOld(st poll.Status) bool {
	return st.Tick == 0 || time.Since(st.At) > 2*c.cfg.interval+freshFor
}
