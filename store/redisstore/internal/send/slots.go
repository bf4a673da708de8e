package send

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/store/redisstore/internal/script"
)

// slots keeps the client of a Cluster from going on asking a master that is gone.
// go-redis asks anew which master has which slot every ten seconds, or when a server
// says that a slot has moved; a master that has died says nothing. So as long as
// servers fail to answer, or say that the Cluster is not what it was, it is told to
// ask more often.
type slots struct {
	cluster *redis.ClusterClient // or nil
	run     func(func())         // starts a goroutine
	life    context.Context      // ends when the store closes

	mu      sync.Mutex
	trouble time.Time // when there last was any
	looking bool      // a goroutine looks
}

const (
	// slotLooks is how long it is from one look to the next. A failover takes a
	// second or more, and each look costs a server the list of all slots.
	slotLooks = 200 * time.Millisecond
	// slotTrouble is for how long it goes on looking after the last failure, beyond
	// the time that a request may hang before it is one.
	slotTrouble = 2 * time.Second
)

// heard takes in how a request ended.
func (sl *slots) heard(err error) {
	if sl.cluster == nil || err == nil || script.Answered(err) && !moving(err) {
		return
	}
	sl.mu.Lock()
	defer sl.mu.Unlock()
	sl.trouble = time.Now()
	if !sl.looking {
		sl.looking = true
		sl.run(sl.look)
	}
}

// moving says that a server answers as in a failover: one that is no master any
// more, or knows that one is missing.
func moving(err error) bool {
	return script.Says(err, "READONLY") || script.Temporary(err) && !redis.HasErrorPrefix(err, "LOADING ") && !redis.HasErrorPrefix(err, "BUSY ")
}

// look has the client ask until the trouble is over.
func (sl *slots) look() {
	for {
		sl.cluster.ReloadState(sl.life)
		if !sleep(sl.life, slotLooks) || sl.over() {
			return
		}
	}
}

func (sl *slots) over() bool {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	sl.looking = time.Since(sl.trouble) < slotTrouble+max(sl.cluster.Options().ReadTimeout, 0)
	return !sl.looking
}
