package redisstore

import (
	"fmt"

	"github.com/keyturn/keyturn/store/redisstore/internal/script"
)

// request is one call of a script on its way. Its result is set when it is back.
type request struct {
	script.Call
	replicas int // wait for so many, in the same breath

	self [1]*request // for alone
	trip *trip       // what it is part of while under way
	acks int64       // of replicas
}

// alone is the list of nothing but r.
func (r *request) alone() []*request {
	r.self[0] = r
	return r.self[:]
}

// confirmed is nil if as many replicas have the request's write as it waits for. Else
// it may be forgotten in a failover.
func (r *request) confirmed() error {
	if r.acks < int64(r.replicas) {
		return fmt.Errorf("%w: %d of %d have it", ErrNoReplicas, r.acks, r.replicas)
	}
	return nil
}

// fits says whether a request may leave with others. One that waits for replicas keeps
// its connection.
func (r *request) fits() bool { return r.replicas == 0 && r.Fits() }
