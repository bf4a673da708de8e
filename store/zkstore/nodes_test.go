package zkstore_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/drivertest"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/storetest"
	"github.com/keyturn/keyturn/internal/zktest"
)

// TestSweepDeletesWhatIsOver and nothing else. Locks stay for a minute at least, because processes
// remember their versions. One that can't be read is no reason to leave the others.
func TestSweepDeletesWhatIsOver(t *testing.T) {
	t.Parallel()
	z := newScene(t)
	s := z.open(t)
	const short = 100 * time.Millisecond
	hold(t, s, request("over", short))
	held := hold(t, s, request("held", time.Minute))
	for key, retention := range map[string]time.Duration{"done": short, "kept": time.Minute} {
		must(t, s.Complete(t.Context(), hold(t, s, request(key, time.Minute)), driver.Record{}, retention))
		must(t, checktest.ErrorOf(s.AdvanceVersion(t.Context(), key, 1, retention)))
	}
	must(t, s.Complete(t.Context(), hold(t, s, request("foreign", time.Minute)), driver.Record{}, short))
	must(t, checktest.ErrorOf(z.Set(z.lock("foreign")+"/r", []byte("not JSON"), -1)))
	time.Sleep(2 * short)
	must(t, errors.Join(s.Sweep(t.Context(), time.Hour), s.Sweep(t.Context(), math.MaxInt64)))
	check := func(when string, want map[string]int) {
		t.Helper()
		for key, n := range want {
			left := z.nodes(t, key, "")
			check(t, len(left) == n, "%s, %s has %v, want %d nodes", when, key, left, n)
			exists, _, err := z.Exists(z.lock(key))
			check(t, err == nil && exists, "%s, the lock %s is there: %v, %v", when, key, exists, err)
		}
	}
	check("before they have been over for an hour", map[string]int{"over": 1, "held": 1, "done": 2, "kept": 2})
	must(t, s.Sweep(t.Context(), 0))
	check("afterwards", map[string]int{"over": 0, "held": 1, "done": 0, "kept": 2})
	release(t, s, held)
}

// A process that lived for seconds swept nothing. Its first lock has it look how old the bucket is, and waits for nothing.
func TestAShortLifeSweeps(t *testing.T) {
	t.Parallel()
	z := newScene(t)
	network := zktest.NewRelay(t, z.addr)
	s := z.openAt(t, network.Addr)
	looks, goOn := network.HoldBack(zktest.OpExists)
	defer goOn()
	hold(t, s, request("k", time.Minute))
	select {
	case <-looks:
	case <-time.After(checktest.Soon):
		t.Error("it does not look")
	}
}

// Somebody has written most of a megabyte into a lock. It must not go as a whole into each conflict, list and log.
func TestALongForeignValueIsShortened(t *testing.T) {
	t.Parallel()
	z := newScene(t)
	s := z.open(t)
	node := z.lock("k") + "/h-" + nodeOf(hold(t, s, request("k", time.Minute)).Owner)
	data, _, err := z.Get(node)
	must(t, err)
	var value map[string]json.RawMessage
	must(t, json.Unmarshal(data, &value))
	long := strings.Repeat("é", 1<<17)
	for _, field := range []string{"owner", "rule", "trace"} {
		value[field] = json.RawMessage(`"` + long + `"`)
	}
	data, err = json.Marshal(value)
	must(t, err)
	must(t, checktest.ErrorOf(z.Set(node, data, -1)))
	drivertest.Shortened(t, s, "k")

	must(t, checktest.ErrorOf(z.Set(z.lock("k"), []byte(long), -1))) // not JSON
	_, err = s.Acquire(t.Context(), request("k", time.Minute))
	check(t, err != nil && len(err.Error()) <= 2000, "the error is not short: %.300v", err)
}

// TestRenewalsTogether counts the writes that renew many leases. One of them has changed, which
// does not keep the others from being renewed. It is not parallel: others' writes would count, too.
func TestRenewalsTogether(t *testing.T) {
	z := newScene(t)
	s := z.open(t)
	var grants []driver.Grant
	for i := range 250 {
		grants = append(grants, hold(t, s, request("k"+hex.EncodeToString([]byte{byte(i)}), time.Minute)))
	}
	writes := func() int64 {
		stat, err := z.Set(z.root+"/clock", nil, -1)
		must(t, err)
		return stat.Mzxid
	}
	before := writes()
	for i, err := range s.Renew(t.Context(), grants) {
		check(t, err == nil, "lease %d: %v", i, err)
	}
	n := writes() - before - 1
	check(t, n == 3, "%d writes renewed 250 leases, want 3", n)
	release(t, s, grants[7])
	for i, err := range s.Renew(t.Context(), grants) {
		want := i == 7
		check(t, errors.Is(err, driver.ErrLeaseLost) == want && (want || err == nil), "lease %d of 250, of which number 7 was released: %v", i, err)
	}
}

// TestOneUnreadableLease, whose renewal fails alone. Shared leases are read before they are renewed. A list shows
// the others.
func TestOneUnreadableLease(t *testing.T) {
	t.Parallel()
	z := newScene(t)
	s := z.open(t)
	grants := []driver.Grant{hold(t, s, storetest.RequestFor(time.Minute, driver.Shared("a"))), hold(t, s, storetest.RequestFor(time.Minute, driver.Shared("b")))}
	must(t, checktest.ErrorOf(z.Set(z.lock("a")+"/h-"+nodeOf(grants[0].Owner), []byte("not JSON"), -1)))
	errs := s.Renew(t.Context(), grants)
	storetest.IsForeign(t, errs[0])
	must(t, errs[1])
	page, _, err := s.List(t.Context(), driver.Listing{Records: true})
	check(t, err == nil && len(page) == 1 && page[0].Key == "b", "the list is %+v, %v", page, err)
}

// TestKnownNodesAreNotRead: a process that has granted itself a lease knows its node, and the lock afterwards. The
// answer to the request that makes a lock has no stamp, so the first renewal of such a lease reads.
func TestKnownNodesAreNotRead(t *testing.T) {
	t.Parallel()
	z := newScene(t)
	network := zktest.NewRelay(t, z.addr)
	s := z.openAt(t, network.Addr)
	storetest.Use(t, s, "again")
	again, first := hold(t, s, request("again", time.Minute)), hold(t, s, request("first", time.Minute))
	must(t, s.Renew(t.Context(), []driver.Grant{first})[0])
	read, goOn := network.HoldBack(zktest.OpRead)
	defer goOn()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	must(t, errors.Join(s.Renew(ctx, []driver.Grant{again, first})...))
	must(t, s.Release(ctx, again))
	g, err := s.Acquire(ctx, request("again", time.Minute))
	must(t, err)
	must(t, s.Release(ctx, g))
	select {
	case <-read:
		t.Error("it has read a node")
	default:
	}
}

// TestRenewalMeetsChange: the node of one lease changes between the look of a renewal and its write. All
// leases are renewed, that one, too.
func TestRenewalMeetsChange(t *testing.T) {
	t.Parallel()
	z := newScene(t)
	network := zktest.NewRelay(t, z.addr)
	s := z.openAt(t, network.Addr)
	var grants []driver.Grant
	for _, key := range []string{"a", "b", "c"} {
		grants = append(grants, hold(t, s, request(key, time.Minute)))
	}
	node := func(i int) string { return z.lock(grants[i].Claims[0].Key) + "/h-" + nodeOf(grants[i].Owner) }
	held, goOn := network.HoldBack(zktest.OpMulti)
	renewed := checktest.Async(func() []error { return s.Renew(t.Context(), grants) })
	<-held
	data, _, err := z.Get(node(1))
	if err == nil {
		_, err = z.Set(node(1), data, -1)
	}
	goOn()
	must(t, err)
	for i, err := range <-renewed {
		_, stat, look := z.Exists(node(i))
		if want := map[int]int32{0: 1, 1: 2, 2: 1}[i]; err != nil || look != nil || stat.Version != want {
			t.Errorf("lease %d: %v, and its node was changed %d times, %v; want %d", i, err, stat.Version, look, want)
		}
	}
}
