package redlock

import (
	"context"
	"sync"

	"github.com/keyturn/keyturn/store/redlock/internal/node"
)

// answer is a node's answer to a request.
type answer[T any] struct {
	here  bool // it has come
	err   error
	value T
}

// ask sends a call to every node, and returns the answers when there are enough, all have come, or
// ctx has ended. What comes later is dropped.
func ask[T any](ctx context.Context, s *Store, hash uint32, call func() *node.Call, read func(any) (T, error), enough func([]answer[T]) bool) []answer[T] {
	var mu sync.Mutex
	answers, over, here := make([]answer[T], len(s.nodes)), false, 0
	done := make(chan struct{})
	for i, n := range s.nodes {
		c := call()
		c.Done = func(reply any, err error) {
			a := answer[T]{here: true, err: err}
			if err == nil {
				a.value, a.err = read(reply)
			}
			mu.Lock()
			defer mu.Unlock()
			if over {
				return
			}
			answers[i] = a
			if here++; here == len(answers) || enough(answers) {
				over = true
				close(done)
			}
		}
		n.Send(hash, c)
	}
	select {
	case <-done:
	case <-ctx.Done():
		mu.Lock()
		over = true
		mu.Unlock()
	}
	return answers
}

// answered returns how many nodes have answered.
func answered[T any](answers []answer[T]) int {
	return agree(answers, func(T) bool { return true })
}

// agree returns how many answers are like that.
func agree[T any](answers []answer[T], like func(T) bool) (n int) {
	for i := range answers {
		if a := &answers[i]; a.here && a.err == nil && like(a.value) {
			n++
		}
	}
	return n
}

// errsOf returns the error of each node that has not answered.
func errsOf[T any](answers []answer[T]) []error {
	errs := make([]error, len(answers))
	for i := range answers {
		if errs[i] = answers[i].err; !answers[i].here {
			errs[i] = errSilent
		}
	}
	return errs
}
