package script

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/internal/onredis"
)

// Info reads the answer to Inspect and ForceRelease: the reply of show.lua.
func (c *Call) Info(key string) (driver.LockInfo, error) {
	info := driver.LockInfo{Key: key}
	if c.Err != nil {
		return info, c.Err
	}
	reply := fields(c.Value)
	if len(reply) != 11 {
		return info, fmt.Errorf("%w: reply %.100v", ErrCorrupt, c.Value)
	}
	now := number(reply[0])
	switch lock := text(reply[1]); lock {
	case "":
		// nil: the lock is free. An empty string is the value of a foreign client; only its TTL
		// is known.
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
		v := onredis.ParseValue(lock)
		h := v.Holder(now, millis(reply[2]))
		h.Lingers = v.Lingers
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

// parseHolders reads the holders of shared leases and permits: owners with their ends, and what
// is known about them.
func parseHolders(now int64, ends []string, about map[string]string) []driver.Holder {
	var all []driver.Holder
	for i := 0; i+1 < len(ends); i += 2 {
		end, _ := strconv.ParseInt(ends[i+1], 10, 64)
		if end <= now {
			continue // expired, and not removed yet
		}
		v := onredis.ParseValue(ends[i] + ":" + about[ends[i]])
		if v.Token == 0 {
			v.Owner = ends[i]
		}
		all = append(all, v.Holder(now, time.Duration(end-now)*time.Millisecond))
	}
	slices.SortFunc(all, func(a, b driver.Holder) int {
		return cmp.Or(cmp.Compare(a.Token, b.Token), cmp.Compare(a.Owner, b.Owner))
	})
	return all
}

// entryFields is how many fields every entry of a waiter has behind its version: see entry.lua.
const entryFields = 10

// parseWaiters reads the entries that entry.lua describes, of both queues, and puts them in
// order of arrival. Of an entry that can't be read only the owner is known.
func parseWaiters(now int64, owners []string, entries map[string]string) []driver.Waiter {
	var all []driver.Waiter
	arrived := make(map[string]int64, len(owners))
	for _, owner := range owners {
		_, rest, _ := strings.Cut(entries[owner], " ")
		fields := strings.Split(rest, " ")
		if expires, _ := strconv.ParseInt(fields[0], 10, 64); expires <= now {
			continue
		}
		w := driver.Waiter{Owner: owner}
		if len(fields) < entryFields || !strings.Contains("xsp", fields[2]) {
			all = append(all, w)
			continue
		}
		w.Mode = modeOf(fields[2])
		w.Permits, _ = strconv.Atoi(fields[3])
		since, _ := strconv.ParseInt(fields[4], 10, 64)
		w.Waited = max(time.Duration(now-since)*time.Millisecond, 0)
		arrived[owner], _ = strconv.ParseInt(fields[5], 10, 64)
		w.Rule, w.Trace, _ = onredis.ParseNotes(fields[8])
		all = append(all, w)
	}
	slices.SortStableFunc(all, func(a, b driver.Waiter) int { return cmp.Compare(arrived[a.Owner], arrived[b.Owner]) })
	return all
}

func parseRecord(head string, size int, left time.Duration) *driver.RecordInfo {
	h, ok := parseHeader(head)
	if !ok {
		return &driver.RecordInfo{Size: size, Left: left} // not a record of this package, but something is there
	}
	body := head[h.length:]
	return &driver.RecordInfo{
		Owner: h.owner, Size: max(size-h.length-h.trace-h.fingerprint, 0), ResultNotKept: h.notKept,
		Trace: body[:min(h.trace, len(body))], Left: left,
	}
}
