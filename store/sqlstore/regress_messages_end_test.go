package sqlstore

import (
	"context"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"
)

// The goroutine of messages had no owner: Close returned while it still told the engine of one.
func TestCloseWaitsForTheMessages(t *testing.T) {
	defer goleak.VerifyNone(t)
	synctest.Test(t, func(t *testing.T) {
		messages := make(chan string)
		s := &Store{cfg: config{waker: talker{messages: messages}}, d: &postgres}
		s.life, s.end = context.WithCancel(t.Context())
		s.hard, s.cancel = context.WithCancel(t.Context())
		leave, told := make(chan struct{}), false
		s.wanted.On(func(string, string) { <-leave; told = true })
		s.calls.Go(s.listen)
		messages <- wantedMessage("k", "o")
		closed := make(chan bool)
		go func() {
			_ = s.Close() // it returns before the time for this is over
			closed <- told
		}()
		synctest.Wait()
		close(leave)
		if !<-closed {
			t.Error("Close returned before the engine was told")
		}
	})
}

// talker is a waker of which a test has the other end of the channel.
type talker struct {
	deaf
	messages <-chan string
}

func (w talker) Messages() <-chan string { return w.messages }
