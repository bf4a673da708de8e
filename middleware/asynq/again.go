package lockasynq

import (
	"context"
	"hash/maphash"
	"sync/atomic"

	"github.com/hibiken/asynq"
)

// returns counts how often in a row each task was rescheduled, which asynq does
// not, so that one which keeps coming in vain comes less and less often.
//
// It is the memory of this process alone, and of fixed size, with one place per
// hash: a task that takes another's place has that one start over. In a fleet
// of n processes delays therefore grow n times slower; were the count to be
// exact, each rescheduling would cost a round trip to a place all share, and all
// that hangs on it is a delay.
type returns struct {
	seed maphash.Seed
	// The high bits are those of a task's hash, the low ones its count. 0: free.
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
	queue, _ := asynq.GetQueueName(ctx) // two queues may have tasks of one id
	hash = maphash.Comparable(r.seed, [2]string{queue, id})
	return &r.places[hash%returnPlaces], hash &^ returnMask
}

// add counts one more for the task, and returns how many that makes; 0 if the
// context is not one of a server. A task is never in two hands at once, so
// there is nothing to win by comparing and swapping.
func (r *returns) add(ctx context.Context) int {
	place, hash := r.place(ctx)
	if place == nil {
		return 0
	}
	n := min(counted(place, hash)+1, returnMask)
	place.Store(hash | n)
	return int(n)
}

func counted(place *atomic.Uint64, hash uint64) uint64 {
	if v := place.Load(); v&^returnMask == hash {
		return v & returnMask
	}
	return 0
}

// forget says that the task had its turn.
func (r *returns) forget(ctx context.Context) {
	place, hash := r.place(ctx)
	if place != nil && place.Load()&^returnMask == hash {
		place.Store(0)
	}
}
