// Package load has the clients of the IM service, and counts what went wrong for them.
package load

import (
	"context"
	"fmt"
	"time"

	"github.com/hibiken/asynq"

	"github.com/keyturn/keyturn/examples/im/db"
)

// Figures are the counts of what went wrong.
type Figures struct {
	// StatusLostUpdates counts updates that were acknowledged and then overwritten, because
	// another update had begun before they were written.
	StatusLostUpdates int `json:"status_lost_updates"`
	// GroupViolations counts members over a group's capacity, and members who
	// are in it twice.
	GroupViolations int `json:"group_violations"`
	// MessagesProcessedTwice counts messages that were processed more than once; each counts
	// once.
	MessagesProcessedTwice int `json:"messages_processed_twice"`
	// MessagesLost counts messages that were acknowledged and never processed.
	MessagesLost int `json:"messages_lost"`
	// Requests counts requests that were carried out. A request that was refused and repeated
	// counts once.
	Requests int `json:"requests"`
}

// Clean reports whether nothing went wrong.
func (f Figures) Clean() bool {
	f.Requests = 0
	return f == Figures{}
}

// Target is the service under load.
type Target struct {
	Gateways []string // host:port
	// DB is for the check of the results, which does not go through the service.
	DB    *db.DB
	Tasks *asynq.Inspector
	Queue string
}

// Run runs the three scenarios, one after the other. The load is the same in every run. tell gets a
// line after each. If it returns an error, the figures are worthless: a request failed, or was refused
// for too long.
func Run(ctx context.Context, to Target, tell func(format string, args ...any)) (Figures, error) {
	var sum Figures
	c := newClient(to.Gateways)
	defer c.close()
	for _, scenario := range []struct {
		name string
		play func(context.Context, *client, Target, *Figures) error
	}{
		{"status updates", playStatus},
		{"group joins and leaves", playGroups},
		{"messages", playMessages},
	} {
		begin, before := time.Now(), c.done.Load()
		if err := scenario.play(ctx, c, to, &sum); err != nil {
			return sum, fmt.Errorf("%s: %w", scenario.name, err)
		}
		tell("  %-24s %5d requests  %5.1f s", scenario.name, c.done.Load()-before, time.Since(begin).Seconds())
	}
	sum.Requests = int(c.done.Load())
	return sum, nil
}
