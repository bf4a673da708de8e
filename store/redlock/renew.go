package redlock

import (
	"context"
	"slices"
	"sync"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/redlock/internal/node"
	"github.com/keyturn/keyturn/store/redlock/internal/script"
)

// renewBatch is how many leases one script call renews. A batch takes a node less than a
// millisecond, during which others wait.
const renewBatch = 100

// Renew implements [driver.Store]. A lease is renewed if a quorum has renewed it, and lost if so many
// nodes have lost it that there is no quorum without them. A node that has lost it does not get it
// back before the next acquisition.
func (s *Store) Renew(ctx context.Context, grants []driver.Grant) []error {
	if err := s.calls.Enter(); err != nil {
		return slices.Repeat([]error{err}, len(grants))
	}
	defer s.calls.Leave()
	errs := make([]error, len(grants))
	var batches [][]int // indices of grants
	for i, g := range grants {
		if errs[i] = s.check(g.Owner, g.Claims, g.TTL); errs[i] != nil {
			continue
		}
		if last := len(batches) - 1; last >= 0 && len(batches[last]) < renewBatch {
			batches[last] = append(batches[last], i)
		} else {
			batches = append(batches, []int{i})
		}
	}
	var all sync.WaitGroup
	for lane, batch := range batches {
		all.Go(func() { s.renew(ctx, uint32(lane), grants, batch, errs) })
	}
	all.Wait()
	return errs
}

// renew renews a batch, and sets its errors.
func (s *Store) renew(ctx context.Context, lane uint32, grants []driver.Grant, batch []int, errs []error) {
	var keys []string
	var args []any
	for _, i := range batch {
		g := &grants[i]
		names := s.names.Of(g.Claims[0].Key)
		keys = append(keys, names.Lock, names.Forced)
		args = append(args, g.Owner, g.TTL.Milliseconds(), g.Token, g.Borrowed, g.HandedOn)
	}
	call := func() *node.Call { return &node.Call{Script: script.Renew, Keys: keys, Args: args} }
	read := func(reply any) ([]script.Ended, error) { return script.ReadRenewals(reply, len(batch)) }
	answers := ask(ctx, s, lane, call, read, func(a []answer[[]script.Ended]) bool {
		for i := range batch {
			if !s.decided(of(a, i)) {
				return false
			}
		}
		return true
	})
	for i, at := range batch {
		errs[at] = s.verdict("renew", of(answers, i), grants[at])
	}
}

// decided reports whether the answers that are missing make no difference.
func (s *Store) decided(a []answer[script.Ended]) bool {
	mine := agree(a, func(e script.Ended) bool { return e.Mine })
	return mine >= s.cfg.quorum || answered(a)-mine > len(s.nodes)-s.cfg.quorum
}

// of returns the answers about the i-th lease of a batch.
func of(all []answer[[]script.Ended], i int) []answer[script.Ended] {
	one := make([]answer[script.Ended], len(all))
	for n, a := range all {
		one[n] = answer[script.Ended]{here: a.here, err: a.err}
		if a.here && a.err == nil {
			one[n].value = a.value[i]
		}
	}
	return one
}
