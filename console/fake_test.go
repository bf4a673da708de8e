package console_test

import (
	"context"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/console"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
)

var must, check, wantNil, wantIs = checktest.Must, checktest.That, checktest.WantNil, checktest.WantIs

// fake is a store with whatever a test puts into it. Its leases and waits go on.
type fake struct {
	mu      sync.Mutex
	infos   map[string]driver.LockInfo
	since   map[string]time.Time
	err     error
	reasons []string
	filter  func(key string) string
}

func newFake(infos ...driver.LockInfo) *fake {
	f := &fake{infos: make(map[string]driver.LockInfo), since: make(map[string]time.Time)}
	f.put(infos...)
	return f
}

func (f *fake) put(infos ...driver.LockInfo) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, info := range infos {
		f.infos[info.Key], f.since[info.Key] = info, time.Now()
	}
}

// now returns what is to be seen of a key at present.
func (f *fake) now(key string) driver.LockInfo {
	info, passed := f.infos[key], time.Since(f.since[key])
	info.Key, info.Holders, info.Waiters = key, slices.Clone(info.Holders), slices.Clone(info.Waiters)
	for i := range info.Holders {
		if h := &info.Holders[i]; h.Left > 0 {
			h.HeldFor, h.Left = h.HeldFor+passed, h.Left-passed
		}
	}
	for i := range info.Waiters {
		info.Waiters[i].Waited += passed
	}
	return info
}

func (f *fake) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func (f *fake) said() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.reasons)
}

func (f *fake) Inspect(_ context.Context, key string) (driver.LockInfo, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now(key), f.err
}

func (f *fake) ListAll(context.Context, string) iter.Seq2[driver.LockInfo, error] {
	f.mu.Lock()
	defer f.mu.Unlock()
	var infos []driver.LockInfo
	for _, key := range slices.Sorted(maps.Keys(f.infos)) {
		infos = append(infos, f.now(key))
	}
	err := f.err
	return func(yield func(driver.LockInfo, error) bool) {
		if err != nil {
			yield(driver.LockInfo{}, err)
			return
		}
		for _, info := range infos {
			if !yield(info, nil) {
				return
			}
		}
	}
}

func (f *fake) ForceRelease(_ context.Context, key, reason string, only ...driver.Holder) ([]driver.Holder, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	info := f.infos[key]
	gone := driver.NamedHolders(info.Holders, only)
	switch {
	case f.err != nil:
		return nil, f.err
	case len(gone) == 0 && len(info.Holders) > 0:
		return nil, &driver.HeldError{Key: key, Holder: info.Holders[0].Owner}
	}
	f.reasons = append(f.reasons, reason)
	delete(f.infos, key)
	return gone, nil
}

func (f *fake) ShowKey(key string) string {
	if f.filter != nil {
		return f.filter(key)
	}
	return key
}

func (f *fake) Forget(_ context.Context, key, reason string) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	info := f.infos[key]
	was := info.Record != nil
	info.Record = nil
	f.infos[key] = info
	f.reasons = append(f.reasons, reason)
	return was, f.err
}

// owner is one of a process on the host "im".
func owner(pid, id int) string { return fmt.Sprintf("im/%d/1/t0abcd/%032x", pid, id) }

const traceID = "4bf92f3577b34da6a3ce929d0e0e4736"

func trace(n int) string {
	return fmt.Sprintf("00-%s%02x-%016x-01", traceID[:30], n, n)
}

func held(key string, pid int) driver.LockInfo {
	return driver.LockInfo{Key: key, Holders: []driver.Holder{{
		Owner: owner(pid, pid), Token: 7, Rule: "POST /groups", Trace: trace(pid), HeldFor: 90 * time.Second, Left: 20 * time.Second,
	}}}
}

func wanted(info driver.LockInfo, pids ...int) driver.LockInfo {
	for _, pid := range pids {
		info.Waiters = append(info.Waiters, driver.Waiter{Owner: owner(pid, pid), Rule: "PUT /groups", Trace: trace(pid), Waited: time.Duration(pid) * time.Second})
	}
	return info
}

func open(t *testing.T, source console.Source, opts ...console.Option) *console.Console {
	t.Helper()
	c, err := console.New(source, opts...)
	must(t, err)
	t.Cleanup(func() {
		wantNil(t, c.Close())
	})
	return c
}

func serve(h http.Handler, r *http.Request) *http.Response {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// get returns the text of a page, which must be there.
func get(t *testing.T, h http.Handler, path string) string {
	t.Helper()
	res := serve(h, httptest.NewRequest(http.MethodGet, path, nil))
	text := body(t, res)
	if res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s: %s", path, res.Status, text)
	}
	return text
}

func body(t *testing.T, res *http.Response) string {
	t.Helper()
	text, err := io.ReadAll(res.Body)
	must(t, err)
	return string(text)
}

// post sends a form as a page of the console does.
func post(h http.Handler, path string, form url.Values) *http.Response {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	return serve(h, r)
}

func contains(t *testing.T, text string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		check(t, strings.Contains(text, want), "%q is missing in\n%s", want, text)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
