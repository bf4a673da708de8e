package redlock

import (
	"cmp"
	"context"
	"slices"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/redlock/internal/node"
	"github.com/keyturn/keyturn/store/redlock/internal/script"
)

// Inspect implements [driver.Inspector]. A lease is in force if a quorum shows it, with one token.
// Waiters are not shown: no node knows all of them.
func (s *Store) Inspect(ctx context.Context, key string) (driver.LockInfo, error) {
	if err := driver.ValidateKey(key); err != nil {
		return driver.LockInfo{}, err
	}
	if err := s.calls.Enter(); err != nil {
		return driver.LockInfo{}, err
	}
	defer s.calls.Leave()
	infos, err := s.inspect(ctx, []string{key}, true)
	if err != nil {
		return driver.LockInfo{Key: key}, err
	}
	return infos[0], nil
}

// inspect inspects keys in one round. alone: there is one, and it is an error if that is no lock. In a list it must
// not hide the others.
func (s *Store) inspect(ctx context.Context, keys []string, alone bool) ([]driver.LockInfo, error) {
	names := make([]string, len(keys))
	for i, key := range keys {
		names[i] = s.names.Lock(key)
	}
	call := func() *node.Call { return &node.Call{Script: script.Show, Keys: names} }
	read := func(reply any) ([]script.Sight, error) {
		sights, err := script.ReadShow(reply, len(keys))
		if err == nil && alone && sights[0].Foreign {
			err = driver.ErrForeign
		}
		return sights, err
	}
	// All nodes that answer count. The first quorum may have one among it that has just lost a lease
	// that is in force elsewhere.
	answers := ask(ctx, s, hash(keys[0]), call, read, func(a []answer[[]script.Sight]) bool { return false })
	if answered(answers) < s.cfg.quorum {
		return nil, s.noQuorum("inspect", keys[0], errsOf(answers))
	}
	infos := make([]driver.LockInfo, len(keys))
	for i, key := range keys {
		var sights []script.Sight
		for _, a := range answers {
			if a.here && a.err == nil {
				sights = append(sights, a.value[i])
			}
		}
		infos[i] = driver.LockInfo{Key: key, Holders: s.inForce(sights)}
	}
	return infos, nil
}

// inForce returns the holder that a quorum of nodes shows.
func (s *Store) inForce(sights []script.Sight) []driver.Holder {
	type name struct {
		owner string
		token uint64
	}
	shown := make(map[name][]driver.Holder)
	for _, sight := range sights {
		if sight.Value == "" {
			continue
		}
		v := script.ParseValue(sight.Value)
		n := name{v.Owner, v.Token}
		shown[n] = append(shown[n], v.Holder(sight.Now/1000, sight.Left))
	}
	for _, all := range shown {
		if len(all) >= s.cfg.quorum {
			// The lease ends when the quorum does: the last of its nodes that is needed.
			slices.SortFunc(all, func(a, b driver.Holder) int { return cmp.Compare(b.Left, a.Left) })
			return []driver.Holder{all[s.cfg.quorum-1]}
		}
	}
	return nil
}

// forced reports whether a ForceRelease that was sent twice has certainly ended a lease, or found
// another one.
func forced(reply any) bool {
	s, err := script.ReadForce(reply)
	return err == nil && s.Value != ""
}

// ForceRelease implements [driver.Inspector]. It fails unless a quorum of nodes answered. What it
// has ended on some nodes stays ended, and repeating is safe. The reason is remembered for an hour.
func (s *Store) ForceRelease(ctx context.Context, key, reason string, only ...driver.Holder) ([]driver.Holder, error) {
	if err := driver.ValidateKey(key); err != nil {
		return nil, err
	}
	if err := s.calls.Enter(); err != nil {
		return nil, err
	}
	defer s.calls.Leave()
	names := s.names.Of(key)
	keys, args := []string{names.Lock, names.Line, names.Turn, names.Forced}, []any{reason, forcedTTL.Milliseconds(), turn.Milliseconds()}
	for _, h := range only {
		args = append(args, h.Owner, h.Token)
	}
	call := func() *node.Call { return &node.Call{Script: script.Force, Keys: keys, Args: args, Certain: forced} }
	answers := ask(ctx, s, hash(key), call, script.ReadForce, func([]answer[script.Sight]) bool { return false })
	if answered(answers) < s.cfg.quorum {
		return nil, s.noQuorum("force release", key, errsOf(answers))
	}
	var before, ended []script.Sight
	for _, a := range answers {
		if a.here && a.err == nil {
			before = append(before, a.value)
			if a.value.Ended {
				ended = append(ended, a.value)
			}
		}
	}
	had, were := s.inForce(ended), s.inForce(before)
	if len(had) > 0 || len(were) == 0 {
		return had, nil
	}
	h := were[0]
	return nil, &driver.HeldError{Key: key, Holder: h.Owner, Trace: h.Trace, HeldFor: h.HeldFor, RetryAfter: max(0, h.Left)}
}
