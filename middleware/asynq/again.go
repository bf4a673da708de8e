package lockasynq

import (
	"context"
	"hash/maphash"
	"sync/atomic"

	"github.com/hibiken/asynq"
)

// returns counts how often in a row each task was rescheduled, because asynq does not count
// that. A task that keeps coming in vain then comes less and less often.
//
// It is the memory of this process alone. It has a fixed size, with one place per hash: a task
// that takes another's place makes that one start again. In a fleet of n processes, delays
// therefore grow n times slower. An exact count would cost a round trip for each rescheduling,
// and only a delay depends on it.
type returns struct {
	seed maphash.Seed
	// The high bits are those of a task's hash, the low bits its count. 0: free.
	places [returnPlaces]atomic.Uint64
}

const (
	returnPlaces = 8192 // 64 KiB
	returnBits   = 8
	returnMask   = 1<<returnBits - 1
)

func (r *returns) place(ctx context.Context) (place *atomic.Uint64, hash uint64) {
	id, served := asynq.GetTaskID(ctx)
	if !served {
		return nil, 0
	}
	queue, _ := asynq.GetQueueName(ctx) // two queues may have tasks with the same id
	hash = maphash.Comparable(r.seed, [2]string{queue, id})
	return &r.places[hash%returnPlaces], hash &^ returnMask
}

// add counts one more rescheduling of the task, and returns the count; 0 if the context is not
// from a server. A task is never processed twice at the same time, so compare-and-swap is not
// needed.
func (r *returns) add(ctx context.Context) int {
	place, hash := r.place(ctx)
	if place == nil {
		return 0
	}
	n := uint64(1)
	if v := place.Load(); v&^returnMask == hash {
		n = min(v&returnMask+1, returnMask)
	}
	place.Store(hash | n)
	return int(n)
}

// forget notes that the task had its turn.
func (r *returns) forget(ctx context.Context) {
	place, hash := r.place(ctx)
	if place != nil && place.Load()&^returnMask == hash {
		place.Store(0)
	}
}
