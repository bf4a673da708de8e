package poll_test

import (
	"context"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// fake is a store of keys. It counts what it is asked.
type fake struct {
	mu        sync.Mutex
	keys      map[string]lock
	err       error
	listed    int
	inspected []string
	jitter    time.Duration // how much later each lease seems to have begun than with the last answer
	late      time.Duration
	silent    chan struct{} // a list answers when it is closed
}

// lock is held since a moment, and waited for since another, unless that is zero.
type lock struct {
	since, waits time.Time
	recorded     bool // nobody holds it
}

func newFake() *fake { return &fake{keys: make(map[string]lock)} }

func (f *fake) set(key string, l lock) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keys[key] = l
}

func (f *fake) free(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.keys, key)
}

func (f *fake) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

// fall has the lists that begin from now on wait until the channel is closed.
func (f *fake) fall(silent chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.silent = silent
}

// asked returns how many keys were listed and which were inspected since the last call.
func (f *fake) asked() (listed int, inspected []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	listed, inspected = f.listed, f.inspected
	f.listed, f.inspected = 0, nil
	slices.Sort(inspected)
	return listed, inspected
}

func (f *fake) info(key string) (driver.LockInfo, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l, held := f.keys[key]
	info := driver.LockInfo{Key: key}
	f.late += f.jitter
	if l.recorded {
		info.Record = &driver.RecordInfo{Size: 1}
	} else if held {
		h := holder("41")
		h.HeldFor, h.Token = time.Since(l.since)-f.late, uint64(l.since.UnixMilli())
		info.Holders = []driver.Holder{h}
		if !l.waits.IsZero() {
			info.Waiters = []driver.Waiter{{Owner: holder("42").Owner, Waited: time.Since(l.waits) - f.late}}
		}
	}
	return info, f.err
}

func (f *fake) Inspect(_ context.Context, key string) (driver.LockInfo, error) {
	f.mu.Lock()
	f.inspected = append(f.inspected, key)
	f.mu.Unlock()
	return f.info(key)
}

func (f *fake) ListAll(_ context.Context, _ string) iter.Seq2[driver.LockInfo, error] {
	return func(yield func(driver.LockInfo, error) bool) {
		f.mu.Lock()
		silent := f.silent
		f.mu.Unlock()
		if silent != nil {
			<-silent
		}
		f.mu.Lock()
		keys, err := slices.Sorted(maps.Keys(f.keys)), f.err
		f.mu.Unlock()
		if err != nil {
			yield(driver.LockInfo{}, err)
			return
		}
		for _, key := range keys {
			info, err := f.info(key)
			f.mu.Lock()
			f.listed++
			f.mu.Unlock()
			if len(info.Holders) > 0 && !yield(info, err) {
				return
			}
		}
	}
}
