package drivertest

import (
	"fmt"
	"strings"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// inspectRecord inspects a record until its retention is over. The next lease is shown beside
// it.
func inspectRecord(s *scene) {
	a, b := s.open(), s.open()
	key := s.key()
	h := s.lock(a, key, long)
	rec := driver.Record{Result: []byte("result"), Trace: "00-trace-01"}
	called := time.Now()
	s.complete(h, rec, s.TTL)
	returned := time.Now()
	info := s.inspect(b, key)
	age := time.Since(called)
	if age < s.TTL && info.Record == nil {
		s.Fatalf("the record is not shown: %+v", info)
	}
	if got := info.Record; got != nil {
		if got.Owner != h.Owner || got.Size != len(rec.Result) || got.Trace != rec.Trace {
			s.Errorf("the record is shown as %+v", *got)
		}
		if got.Left < s.TTL-age-s.Early || got.Left > s.TTL+s.Late {
			s.Errorf("the record is said to be in force for another %v of %v, stored %v ago", got.Left, s.TTL, age)
		}
	}
	s.heldBy(info, info.Mode)
	time.Sleep(time.Until(returned.Add(s.TTL + s.Late)))
	s.isFree(b, key)
}

// inspectRecordWithoutResult: an operator sees why its repeats are refused.
func inspectRecordWithoutResult(s *scene) {
	a, b := s.open(), s.open()
	for _, notKept := range []bool{false, true} {
		key := s.key()
		s.complete(s.lock(a, key, long), driver.Record{Fingerprint: []byte("digest"), ResultNotKept: notKept}, long)
		if got := s.inspect(b, key).Record; got == nil || got.Size != 0 || got.ResultNotKept != notKept {
			s.Errorf("a record whose result was not kept, %v, is shown as %+v", notKept, got)
		}
	}
}

// list goes through all pages, also of records, and returns how often each key came.
func (s *scene) list(st driver.Store, prefix string, limit int) map[string]int {
	s.Helper()
	return s.listed(st, driver.Listing{Prefix: prefix, Limit: limit, Records: true})
}

// listed goes through all pages and returns how often each key came.
func (s *scene) listed(st driver.Store, q driver.Listing) map[string]int {
	s.Helper()
	found := map[string]int{}
	seen := map[string]bool{}
	for {
		page, next, err := st.List(s.ctx, q)
		if err != nil {
			s.Fatalf("List: %v", err)
		}
		for _, info := range page {
			if !strings.HasPrefix(info.Key, q.Prefix) {
				s.Errorf("a listing of %q has %q", q.Prefix, info.Key)
			}
			found[info.Key]++
		}
		if next == "" {
			return found
		}
		if seen[next] {
			s.Fatalf("the listing does not end: cursor %q came twice", next)
		}
		seen[next] = true
		q.Cursor = next
	}
}

// listAll lists all keys in pages of one, of a few and of more keys than there are. Each key is
// as Inspect shows it.
func listAll(s *scene) {
	a, b := s.open(), s.open()
	prefix := s.key() + ":"
	holds := map[string]hold{}
	for i := range 50 {
		key := fmt.Sprintf("%s%d", prefix, i)
		holds[key] = s.lock(a, key, long)
	}
	s.lock(a, s.key(), long)
	s.released(a, driver.Exclusive(prefix+"free"))
	for _, limit := range []int{1, 7, 1000} {
		found := s.list(b, prefix, limit)
		for key := range holds {
			if found[key] == 0 {
				s.Errorf("in pages of %d, %q is missing", limit, key)
			}
		}
		if found[prefix+"free"] != 0 {
			s.Errorf("a free key is listed")
		}
	}
	page, _, err := b.List(s.ctx, driver.Listing{Prefix: prefix + "1", Limit: 1000})
	if err != nil {
		s.Fatalf("List: %v", err)
	}
	for _, info := range page {
		s.heldBy(info, driver.ModeExclusive, holds[info.Key])
	}
	if found := s.list(b, s.key(), 10); len(found) != 0 {
		s.Errorf("a prefix that no key has lists %v", found)
	}
}

// listWithoutRecords lists keys most of which are only on record, in pages of one, of a few and of all.
func listWithoutRecords(s *scene) {
	a, b := s.open(), s.open()
	prefix := s.key() + ":"
	onRecord := func(key string) string {
		s.complete(s.lock(a, key, long), driver.Record{Result: []byte("r")}, long)
		return key
	}
	records := make([]string, 25)
	for i := range records {
		records[i] = onRecord(fmt.Sprintf("%srecord:%d", prefix, i))
	}
	held, waitedFor, both := prefix+"held", prefix+"wanted", onRecord(prefix+"with a record")
	s.lock(a, held, long)
	s.lock(a, waitedFor, long)
	s.enqueue(b, waitedFor, long)
	if _, err := a.Acquire(s.ctx, s.request(both, long)); err != nil {
		s.Fatalf("Acquire of a key that is on record: %v", err)
	}
	for _, limit := range []int{1, 7, 1000} {
		all := s.listed(b, driver.Listing{Prefix: prefix, Limit: limit, Records: true})
		some := s.listed(b, driver.Listing{Prefix: prefix, Limit: limit})
		for _, key := range []string{held, waitedFor, both} {
			if all[key] == 0 || some[key] == 0 {
				s.Errorf("in pages of %d, %q comes %d times with records, %d times without", limit, key, all[key], some[key])
			}
		}
		for _, key := range records {
			if all[key] == 0 || some[key] != 0 {
				s.Errorf("in pages of %d, the record of %q comes %d times with records, %d times without", limit, key, all[key], some[key])
			}
		}
	}
}

// listPrefix uses prefixes that mean something else in a glob, a LIKE or a regular expression.
func listPrefix(s *scene) {
	a := s.open()
	base := s.key()
	for _, special := range []string{"*", "?", "[a-z]", "[^x]", "%", "_", ".", ".*", "\\", "\\*", "^", "$", "(", "é", " "} {
		s.lock(a, base+special+"x", long)
		s.lock(a, base+"a"+"x"+special, long)
		found := s.list(a, base+special, 100)
		if found[base+special+"x"] == 0 {
			s.Errorf("prefix %q does not list %q", special, special+"x")
		}
	}
}

// listBusy lists while others take and release keys with the same prefix.
func listBusy(s *scene) {
	a, b := s.open(), s.open()
	prefix := s.key() + ":"
	var stay []string
	for i := range 20 {
		key := fmt.Sprintf("%sstays:%d", prefix, i)
		h := s.lock(a, key, long)
		switch i % 3 {
		case 0:
			s.complete(h, driver.Record{Result: []byte("r")}, long)
		case 1:
			s.enqueue(b, key, long)
		}
		stay = append(stay, key)
	}
	n := 0
	defer s.meanwhile(1, func(int) {
		req := s.request(fmt.Sprintf("%sgoes:%d", prefix, n), s.TTL)
		if g, err := s.acquire(s.ctx, a, req); err == nil && n%2 == 0 {
			_ = a.Release(s.ctx, g)
		}
		n++
	})()
	for range 3 {
		found := s.list(b, prefix, 5)
		for _, key := range stay {
			if found[key] == 0 {
				s.Errorf("%q is missing", key)
			}
		}
	}
}

// listServes measures how long an acquisition takes while all keys are listed.
func listServes(s *scene) {
	a, b := s.open(), s.open()
	prefix := s.key() + ":"
	for i := range 200 {
		s.lock(a, fmt.Sprintf("%s%d", prefix, i), long)
	}
	defer s.meanwhile(1, func(int) {
		if _, _, err := b.List(s.ctx, driver.Listing{Prefix: prefix, Limit: 1000}); err != nil {
			s.Errorf("List: %v", err)
		}
	})()
	for range 10 {
		called := time.Now()
		s.released(a, driver.Exclusive(s.key()))
		if took := time.Since(called); took > s.soon(s.Late) {
			s.Errorf("during a listing, an acquisition and a release took %v", took)
		}
		time.Sleep(time.Millisecond)
	}
}
