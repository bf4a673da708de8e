package node

import (
	"context"
	"encoding/json"
	"runtime"
	"runtime/metrics"
	"time"
)

// vitals is how large a process is.
type vitals struct {
	Heap       uint64 // bytes that the last garbage collection found in use
	Goroutines int
}

func (n *Node) vitalsKey() string { return n.Run + ":vitals" }

// Report tells once a second how large this process is, until ctx ends, if [Config.Soak] is set. A
// process that is started again under the same name goes on from there.
func (n *Node) Report(ctx context.Context, name string) {
	for n.Soak && ctx.Err() == nil {
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		if text, err := json.Marshal(vitals{live[0].Value.Uint64(), runtime.NumGoroutine()}); err == nil {
			_ = n.Redis.HSet(ctx, n.vitalsKey(), name, text).Err()
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// Vitals returns the bytes of live heap, and the goroutines, of these processes together.
func (n *Node) Vitals(ctx context.Context, names []string) (heap uint64, goroutines int, err error) {
	texts, err := n.Redis.HMGet(ctx, n.vitalsKey(), names...).Result()
	if err != nil {
		return 0, 0, err
	}
	for _, text := range texts {
		var v vitals
		if s, ok := text.(string); ok && json.Unmarshal([]byte(s), &v) == nil {
			heap, goroutines = heap+v.Heap, goroutines+v.Goroutines
		}
	}
	return heap, goroutines, nil
}
