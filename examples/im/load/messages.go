package load

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/keyturn/keyturn/examples/im/delivery"
)

// Every message is sent to both gateways, as by a client that does not know whether the first
// got it.
const (
	// Messages is the number of messages. Each is delivered twice.
	Messages  = 120
	receivers = 8
	senders   = 12 // at a time

	// drainTimeout is how long the load waits for the queue to become empty.
	drainTimeout = time.Minute
)

func playMessages(ctx context.Context, c *client, to Target, sum *Figures) error {
	err := parallel(ctx, 2*senders, func(ctx context.Context, i int) error {
		for n := i / 2; n < Messages; n += senders {
			m := delivery.Message{ID: to.message(n), To: receiver(n), Text: "hello"}
			if err := c.do(ctx, i, http.MethodPost, "/messages", m); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := awaitDrained(ctx, to); err != nil {
		return err
	}
	processed := make(map[string]int)
	for i := range receivers {
		inbox, err := to.DB.Inbox(ctx, receiver(i))
		if err != nil {
			return err
		}
		for _, id := range inbox {
			processed[id]++
		}
	}
	for n := range Messages {
		switch processed[to.message(n)] {
		case 0:
			sum.MessagesLost++
		case 1:
		default:
			sum.MessagesProcessedTwice++
		}
	}
	return nil
}

// message returns the id of a message. Another run has other ones, so a store that remembers that
// run's messages does not take these for repeats.
func (to Target) message(n int) string { return fmt.Sprintf("%s-msg-%d", to.Queue, n) }

// awaitDrained waits until every delivery has been processed or given up. Only then is a
// missing message lost, and a message that was processed once not processed twice.
func awaitDrained(ctx context.Context, to Target) error {
	ctx, cancel := context.WithTimeoutCause(ctx, drainTimeout, fmt.Errorf("deliveries are still in the queue after %v", drainTimeout))
	defer cancel()
	for {
		info, err := to.Tasks.GetQueueInfo(to.Queue)
		if err != nil {
			return err
		}
		if info.Pending+info.Active+info.Scheduled+info.Retry == 0 {
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func receiver(n int) string { return fmt.Sprintf("receiver-%d", n%receivers) }
