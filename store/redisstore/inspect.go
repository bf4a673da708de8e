package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
)

// Inspect implements [driver.Inspector].
func (s *Store) Inspect(ctx context.Context, key string) (driver.LockInfo, error) {
	if err := driver.ValidateKey(key); err != nil {
		return driver.LockInfo{}, err
	}
	if err := s.enter(); err != nil {
		return driver.LockInfo{}, err
	}
	defer s.leave()
	infos, errs := s.inspect(ctx, []string{key})
	return infos[0], errs[0]
}

// inspect looks at keys in one round trip.
func (s *Store) inspect(ctx context.Context, keys []string) ([]driver.LockInfo, []error) {
	infos, errs := make([]driver.LockInfo, len(keys)), make([]error, len(keys))
	reqs := make([]*request, len(keys))
	for i, key := range keys {
		reqs[i] = s.request(new(request), inspectScript, "", []driver.Claim{driver.Exclusive(key)})
	}
	answered := s.await(ctx, nil, reqs)
	for i, key := range keys {
		if answered {
			infos[i], errs[i] = parseInfo("inspect", key, reqs[i])
		} else {
			infos[i], errs[i] = driver.LockInfo{Key: key}, &driver.UnavailableError{Op: "inspect", Err: silence(ctx)}
		}
	}
	return infos, errs
}

// ForceRelease implements [driver.Inspector]. The reason is remembered for an
// hour, for the last thousand leases of the key or so.
func (s *Store) ForceRelease(ctx context.Context, key, reason string) ([]driver.Holder, error) {
	r, err := s.about(ctx, "force release", key, forceScript, reason, s.cfg.forcedFor.Milliseconds())
	if err != nil {
		return nil, err
	}
	info, err := parseInfo("force release", key, r)
	if len(info.Holders) == 0 && r.wire.possible() > 1 {
		// The client has repeated it, and the first attempt's answer was lost.
		err = errors.Join(err, &driver.UnavailableError{Op: "force release", Err: core.ErrOutcomeUnknown})
	}
	return info.Holders, err
}

// Forget implements [driver.Inspector].
func (s *Store) Forget(ctx context.Context, key string) (bool, error) {
	r, err := s.about(ctx, "forget", key, dropScript)
	if err != nil {
		return false, err
	}
	return number(r.value) > 0, nil
}

// about runs a script that an operator, not an owner, has asked for.
func (s *Store) about(ctx context.Context, op, key string, script *redis.Script, args ...any) (*request, error) {
	if err := driver.ValidateKey(key); err != nil {
		return nil, err
	}
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	r := s.request(new(request), script, "", []driver.Claim{driver.Exclusive(key)}, args...)
	r.keys = append(r.keys, s.keys.version(key))
	if !s.await(ctx, nil, r.alone()) {
		return nil, &driver.UnavailableError{Op: op, Err: silence(ctx)}
	}
	if r.err != nil {
		return nil, failure(op, key, r.err)
	}
	return r, nil
}

// parseInfo reads the reply of show.lua.
func parseInfo(op, key string, r *request) (driver.LockInfo, error) {
	info := driver.LockInfo{Key: key}
	if r.err != nil {
		return info, failure(op, key, r.err)
	}
	reply := fields(r.value)
	if len(reply) != 11 {
		return info, failure(op, key, fmt.Errorf("%w: reply %.100v", ErrCorrupt, r.value))
	}
	now := number(reply[0])
	switch lock := text(reply[1]); lock {
	case "":
		// Free; an empty string is a foreign lock, but nothing tells it apart.
		if reply[1] != nil {
			info.Holders = []driver.Holder{{Left: millis(reply[2])}}
		}
	case ":shared", ":permit":
		info.Mode = driver.ModeShared
		if lock == ":permit" {
			info.Mode = driver.ModePermit
		}
		info.Holders = parseHolders(now, list(reply[3]), pairs(reply[4]))
	default:
		h := holder(now, parseValue(lock))
		h.Left = millis(reply[2])
		info.Holders = []driver.Holder{h}
	}
	entries := pairs(reply[7])
	info.Waiters = parseWaiters(now, slices.Concat(list(reply[5]), list(reply[6])), entries)
	if left := millis(reply[10]); left > 0 {
		info.Record = parseRecord(text(reply[8]), int(number(reply[9])), left)
	}
	return info, nil
}

func list(field any) []string {
	items, _ := field.([]any)
	all := make([]string, len(items))
	for i, item := range items {
		all[i] = text(item)
	}
	return all
}

func pairs(field any) map[string]string {
	items := list(field)
	all := make(map[string]string, len(items)/2)
	for i := 0; i+1 < len(items); i += 2 {
		all[items[i]] = items[i+1]
	}
	return all
}

func holder(now int64, v value) driver.Holder {
	h := driver.Holder{Owner: v.owner, Token: v.token, Rule: v.rule, Trace: v.trace}
	if v.since > 0 {
		h.Since = max(time.Duration(now-v.since)*time.Millisecond, 0)
	}
	return h
}

// parseHolders reads those of shared leases and permits: owners with their ends,
// and what is known about them.
func parseHolders(now int64, ends []string, about map[string]string) []driver.Holder {
	var all []driver.Holder
	for i := 0; i+1 < len(ends); i += 2 {
		end, _ := strconv.ParseInt(ends[i+1], 10, 64)
		if end <= now {
			continue // dead, and not swept out yet
		}
		v := parseValue(ends[i] + ":" + about[ends[i]])
		if v.token == 0 {
			v.owner = ends[i]
		}
		h := holder(now, v)
		h.Left = time.Duration(end-now) * time.Millisecond
		all = append(all, h)
	}
	slices.SortFunc(all, func(a, b driver.Holder) int {
		return cmp.Or(cmp.Compare(a.Token, b.Token), cmp.Compare(a.Owner, b.Owner))
	})
	return all
}

// parseWaiters reads the entries that line.lua describes, of both queues, and puts
// them in order of arrival.
func parseWaiters(now int64, owners []string, entries map[string]string) []driver.Waiter {
	var all []driver.Waiter
	arrived := make(map[string]int64, len(owners))
	for _, owner := range owners {
		fields := strings.SplitN(entries[owner], " ", 9)
		if len(fields) != 9 {
			continue
		}
		expires, _ := strconv.ParseInt(fields[0], 10, 64)
		if expires <= now {
			continue
		}
		w := driver.Waiter{Owner: owner, Mode: modeOf(fields[2])}
		w.Permits, _ = strconv.Atoi(fields[3])
		since, _ := strconv.ParseInt(fields[4], 10, 64)
		w.Since = max(time.Duration(now-since)*time.Millisecond, 0)
		arrived[owner], _ = strconv.ParseInt(fields[5], 10, 64)
		w.Rule, w.Trace = parseNotes(fields[7])
		all = append(all, w)
	}
	slices.SortStableFunc(all, func(a, b driver.Waiter) int { return cmp.Compare(arrived[a.Owner], arrived[b.Owner]) })
	return all
}

func parseRecord(head string, size int, left time.Duration) *driver.RecordInfo {
	h, ok := parseHeader(head)
	if !ok {
		return &driver.RecordInfo{Size: size, Left: left} // something is there, whatever it is
	}
	body := head[h.length:]
	return &driver.RecordInfo{
		Owner: h.owner, Size: max(size-h.length-h.trace-h.fingerprint, 0), ResultNotKept: h.notKept,
		Trace: body[:min(h.trace, len(body))], Left: left,
	}
}
