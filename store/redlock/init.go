package redlock

import (
	"context"
	"errors"
	"fmt"

	"github.com/keyturn/keyturn/store/redlock/internal/node"
	"github.com/keyturn/keyturn/store/redlock/internal/script"
)

// Init lets the nodes of a new installation vote at once. Without it they abstain for [WithMaxTTL].
// Call it from a command for operators, once, before the first process takes a lock.
//
// All nodes must answer, and none may have been in use: otherwise the error matches [ErrNotNew], or
// driver.ErrUnavailable, and nothing has changed on the nodes that have been in use. Never empty a
// node in order to call it: leases that were granted before would be granted again.
func (s *Store) Init(ctx context.Context) error {
	if err := s.calls.Enter(); err != nil {
		return err
	}
	defer s.calls.Leave()
	// The first round only looks, so that one node that was in use keeps all from being marked.
	for _, longest := range []any{"", s.cfg.maxTTL.Milliseconds()} {
		if err := s.mark(ctx, longest); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) mark(ctx context.Context, longest any) error {
	keys := []string{s.names.Mark()}
	call := func() *node.Call {
		return &node.Call{Script: script.Mark, Keys: keys, Args: []any{longest}, RunID: true}
	}
	read := func(reply any) (string, error) {
		mark, ok := reply.(string)
		if !ok {
			return "", script.ErrCorrupt
		}
		return mark, nil
	}
	answers := ask(ctx, s, 0, call, read, func([]answer[string]) bool { return false })
	if answered(answers) < len(s.nodes) {
		return s.noQuorum("init", "", errsOf(answers))
	}
	var errs []error
	for i, a := range answers {
		if a.value != "" {
			errs = append(errs, &NodeError{Node: i, Addr: s.clients[i].Options().Addr, Err: fmt.Errorf("has the mark %s", a.value)})
		}
	}
	if len(errs) > 0 {
		return fmt.Errorf("%w: %w", ErrNotNew, errors.Join(errs...))
	}
	return nil
}
