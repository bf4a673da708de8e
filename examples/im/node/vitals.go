package node

import (
	"context"
	"encoding/json"
	"os"
	"runtime"
	"strconv"
	"time"
)

// vitals is how large a process is.
type vitals struct {
	Heap       uint64
	Goroutines int
}

func (n *Node) vitalsKey() string { return n.Run + ":vitals" }

// Report tells once a second how large this process is, until ctx ends, if [Config.Soak] is set.
func (n *Node) Report(ctx context.Context) {
	for n.Soak && ctx.Err() == nil {
		var mem runtime.MemStats
		runtime.ReadMemStats(&mem)
		if text, err := json.Marshal(vitals{mem.HeapInuse, runtime.NumGoroutine()}); err == nil {
			_ = n.Redis.HSet(ctx, n.vitalsKey(), strconv.Itoa(os.Getpid()), text).Err()
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// Vitals returns the bytes of heap in use, and the goroutines, of all processes of the fleet together.
func (n *Node) Vitals(ctx context.Context) (heap uint64, goroutines int) {
	for _, text := range n.Redis.HGetAll(ctx, n.vitalsKey()).Val() {
		var v vitals
		if json.Unmarshal([]byte(text), &v) == nil {
			heap, goroutines = heap+v.Heap, goroutines+v.Goroutines
		}
	}
	return heap, goroutines
}
