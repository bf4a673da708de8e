package console_test

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/console"
	"github.com/keyturn/keyturn/core/driver"
)

// many is a store with many keys, which makes them as it lists them.
type many struct {
	*fake
	n int
}

func (m many) info(i int) driver.LockInfo {
	info := held(fmt.Sprintf("user:status:%06d", i), i%50)
	if i%1000 == 0 {
		info = wanted(info, 3, 4)
	}
	return info
}

func (m many) Inspect(_ context.Context, key string) (driver.LockInfo, error) {
	var i int
	_, err := fmt.Sscanf(key, "user:status:%d", &i)
	return m.info(i), err
}

func (m many) ListAll(context.Context, string) iter.Seq2[driver.LockInfo, error] {
	return func(yield func(driver.LockInfo, error) bool) {
		for i := range m.n {
			if !yield(m.info(i), nil) {
				return
			}
		}
	}
}

// 100 000 held keys and 20 viewers take 64 MiB at most. (How much they ask of the store is tested in
// store/redisstore.)
func TestMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("only in the long run")
	}
	const keys, viewers, most = 100_000, 20, 64 << 20
	synctest.Test(t, func(t *testing.T) {
		before := heap()
		c, err := console.New(many{newFake(), keys}, console.WithHistory())
		must(t, err)
		time.Sleep(keys / 600 * 1100 * time.Millisecond) // all have been seen
		viewing, end := context.WithCancel(context.Background())
		var all sync.WaitGroup
		for i := range viewers {
			path := []string{"/events?page=locks", "/events?page=locks&prefix=user:1", "/events?page=waits", "/events?page=hot", "/events?page=processes"}[i%5]
			r := httptest.NewRequestWithContext(viewing, http.MethodGet, path, nil)
			all.Go(func() { c.ServeHTTP(viewer{make(http.Header)}, r) })
		}
		time.Sleep(3 * time.Second)
		text := get(t, c, "/hot")
		check(t, strings.Contains(text, "<b>100\u202f000</b> held"), "not all were seen:\n%s", text)
		// Twice what is alive: the collector lets as much garbage grow before it runs.
		if took := 2 * (heap() - before); took > most {
			t.Errorf("%d MiB, want %d", took>>20, most>>20)
		} else {
			t.Logf("%d MiB", took>>20)
		}
		end()
		all.Wait()
		wantNil(t, c.Close())
	})
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

type viewer struct{ header http.Header }

func (v viewer) Header() http.Header         { return v.header }
func (v viewer) Write(b []byte) (int, error) { return len(b), nil }
func (v viewer) WriteHeader(int)             {}
func (v viewer) Flush()                      {}
