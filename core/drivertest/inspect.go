package drivertest

import (
	"slices"
	"strings"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

var inspectChecks = []check{
	{name: "I1 a key that nobody wants is no error", run: inspectNothing},
	{name: "I2 an exclusive holder, and what it says of itself", run: inspectHolder},
	{name: "I2 notes come back as they were", run: inspectNotes, ordered: true},
	{name: "I2 readers in order of their tokens", run: inspectReaders, can: shares},
	{name: "I2 what is over is not shown", run: inspectOver},
	{name: "I3 waiters in order of arrival", run: inspectWaiters, ordered: true},
	{name: "I3 a waiter whose process died is not shown", run: inspectDead, needs: toCut},
	{name: "I4 the record in force", run: inspectRecord, can: records},
	{name: "I4 that a result was not kept", run: inspectRecordWithoutResult, can: records},
	{name: "I5 a listing has all keys with the prefix", run: listAll},
	{name: "I5 a prefix is not a pattern", run: listPrefix},
	{name: "I5 a listing has waiters and records, and ends while keys come and go", run: listBusy, can: records},
	{name: "I5 a listing without records leaves out what is only on record", run: listWithoutRecords, can: records},
	{name: "I6 others are served during a listing", run: listServes},
}

func (s *scene) inspect(st driver.Store, key string) driver.LockInfo {
	s.Helper()
	info, err := st.Inspect(s.ctx, key)
	if err != nil {
		s.Fatalf("Inspect: %v", err)
	}
	if info.Key != key {
		s.Fatalf("Inspect of %q is about %q", key, info.Key)
	}
	return info
}

// isFree checks that nothing is known of key.
func (s *scene) isFree(st driver.Store, key string) {
	s.Helper()
	if info := s.inspect(st, key); !info.IsFree() {
		s.Fatalf("a free key is shown as %+v", info)
	}
}

// heldBy checks who holds key, in this order and mode.
func (s *scene) heldBy(info driver.LockInfo, mode driver.Mode, holds ...hold) {
	s.Helper()
	if len(info.Holders) != len(holds) {
		s.Fatalf("%d holders are shown as %+v", len(holds), info.Holders)
	}
	if info.Mode != mode {
		s.Errorf("the mode is said to be %s, is %s", info.Mode, mode)
	}
	for i, got := range info.Holders {
		h := holds[i]
		if got.Owner != h.Owner || got.Token != h.Token {
			s.Errorf("holder %d is shown as %+v, is %q with token %d", i, got, h.Owner, h.Token)
		}
		age := time.Since(h.called)
		if got.HeldFor < 0 || got.HeldFor > age+s.Early {
			s.Errorf("holder %d is said to hold for %v, asked %v ago", i, got.HeldFor, age)
		}
		// A store may learn the backend's time from answers, so a late answer sets it back.
		if least := h.TTL - age - s.Early; got.Left < least || got.Left > h.TTL+s.Late {
			s.Errorf("holder %d is said to have %v left of %v, asked for %v ago", i, got.Left, h.TTL, age)
		}
	}
}

// inspectNothing inspects keys that never existed, and one that was held.
func inspectNothing(s *scene) {
	a := s.open()
	key := s.key()
	s.isFree(a, key)
	s.released(a, driver.Exclusive(key))
	s.isFree(a, key)
}

// note adds notes to a request.
func note(req driver.Request, rule, trace string) driver.Request {
	req.Rule, req.Trace = rule, trace
	return req
}

// inspectHolder inspects from another process, and after a renewal.
func inspectHolder(s *scene) {
	a, b := s.open(), s.open()
	key := s.key()
	h := s.takeBy(a, note(s.request(key, long), "a.rule", "00-trace-01"))
	for _, st := range []driver.Store{a, b} {
		info := s.inspect(st, key)
		s.heldBy(info, driver.ModeExclusive, h)
		if got := info.Holders[0]; got.Rule != "a.rule" || got.Trace != "00-trace-01" {
			s.Errorf("rule and trace are shown as %q and %q", got.Rule, got.Trace)
		}
	}
	time.Sleep(s.TTL / 2)
	s.mustRenew(h)
	info := s.inspect(b, key)
	s.heldBy(info, driver.ModeExclusive, h)
	if got := info.Holders[0]; got.HeldFor < s.TTL/2-s.Early || got.Rule != "a.rule" || got.Trace != "00-trace-01" {
		s.Errorf("a renewal changed the holder to %+v", got)
	}
}

// inspectNotes uses notes with characters that separate, quote or escape in some format.
func inspectNotes(s *scene) {
	a, b := s.open(), s.open()
	for _, text := range []string{
		"", " ", " a ", ":", "::", "a:b", "|", "a|b|", "%", "%3A", "%%", "\\", "\\n", "\"", "'", "{}", "[1]", "null", "0",
		"1e3", "é", "\U0001F512", "a b", "=;,&", "/", "-", "*", strings.Repeat("x", driver.MaxNoteBytes), strings.Repeat(":", driver.MaxNoteBytes),
	} {
		key := s.key()
		h := s.takeBy(a, note(s.request(key, long), text, text))
		w := s.queueUntil(s.ctx, b, note(s.request(key, long), text, text))
		info := s.inspect(b, key)
		s.heldBy(info, driver.ModeExclusive, h)
		if got := info.Holders[0]; got.Rule != text || got.Trace != text {
			s.Errorf("rule and trace of a holder, both %q, are shown as %q and %q", text, got.Rule, got.Trace)
		}
		if got := info.Waiters; len(got) != 1 || got[0].Rule != text || got[0].Trace != text {
			s.Errorf("rule and trace of a waiter, both %q, are shown as %+v", text, got)
		}
		s.mustRelease(h)
		next := w.granted(s.Late)
		if got := s.inspect(a, key).Holders; len(got) != 1 || got[0].Rule != text || got[0].Trace != text {
			s.Errorf("rule and trace of a waiter that was served, both %q, are shown as %+v", text, got)
		}
		s.mustRelease(next)
	}
}

// inspectReaders inspects readers with notes after one in the middle has gone.
func inspectReaders(s *scene) {
	a, b := s.open(), s.open()
	key := s.key()
	var readers []hold
	for i := range 5 {
		ttl := long - time.Duration(i)*time.Second // those that came last end first
		req := note(s.ask(ttl, driver.Shared(key)), "rule", string(rune('a'+i)))
		readers = append(readers, s.takeBy([]driver.Store{a, b}[i%2], req))
	}
	s.mustRelease(readers[1])
	readers = slices.Delete(readers, 1, 2)
	info := s.inspect(b, key)
	s.heldBy(info, driver.ModeShared, readers...)
	for i, want := range []string{"a", "c", "d", "e"} {
		if got := info.Holders[i]; got.Trace != want || got.Rule != "rule" {
			s.Errorf("rule and trace of reader %d are shown as %q and %q", i, got.Rule, got.Trace)
		}
	}
}

// inspectOver: leases that were released, ran out, or were never granted are not shown.
func inspectOver(s *scene) {
	a, b := s.open(), s.open()
	key := s.key()
	s.lock(a, key, long)
	s.held(b, key) // this request is refused, so it is no waiter
	if got := s.inspect(b, key).Waiters; len(got) != 0 {
		s.Errorf("one that was refused is shown as a waiter: %+v", got)
	}
	key = s.key()
	h := s.lock(a, key, s.TTL)
	time.Sleep(time.Until(h.returned.Add(s.TTL + s.Late)))
	s.isFree(b, key)
	h = s.lock(b, key, long)
	s.heldBy(s.inspect(a, key), driver.ModeExclusive, h)
}
