package send

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/internal/waitloop"
	"github.com/keyturn/keyturn/store/redisstore/internal/script"
)

// slots keeps the client of a Cluster from asking a master that is gone again and again.
// go-redis asks which master has which slot every ten seconds, or when a server says that a
// slot has moved. A master that has died says nothing. So slots makes the client ask more often
// while servers fail to answer, or say that the Cluster has changed.
type slots struct {
	cluster *redis.ClusterClient // nil: the client has no Cluster
	Go      func(func())         // starts a goroutine
	life    context.Context      // ends when the store closes

	mu        sync.Mutex
	trouble   time.Time // when a request last failed
	reloading bool      // a goroutine is asking
}

const (
	// reloadPause is the pause between two of these questions. A failover takes a second or more,
	// and each question costs a server the list of all slots.
	reloadPause = 200 * time.Millisecond
	// reloadTime is how long slots goes on asking after the last failure. It is added to the
	// time that a request may hang before it counts as a failure.
	reloadTime = 2 * time.Second
)

// heard records how a request ended.
func (sl *slots) heard(err error) {
	if sl.cluster == nil || err == nil || script.Answered(err) && !moving(err) {
		return
	}
	sl.mu.Lock()
	defer sl.mu.Unlock()
	sl.trouble = time.Now()
	if !sl.reloading {
		sl.reloading = true
		sl.Go(sl.reload)
	}
}

// moving reports whether a server answers as in a failover: it is no master any more, or it
// knows that a master is missing.
func moving(err error) bool {
	return script.Says(err, "READONLY") || script.Temporary(err) && !redis.HasErrorPrefix(err, "LOADING ") && !redis.HasErrorPrefix(err, "BUSY ")
}

// reload makes the client ask until the trouble is over.
func (sl *slots) reload() {
	for {
		sl.cluster.ReloadState(sl.life)
		if !waitloop.Sleep(sl.life, reloadPause) || sl.over() {
			return
		}
	}
}

func (sl *slots) over() bool {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	sl.reloading = time.Since(sl.trouble) < reloadTime+max(sl.cluster.Options().ReadTimeout, 0)
	return !sl.reloading
}
