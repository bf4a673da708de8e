package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/core/driver"
)

// TestBadOptions: they are refused before the database is asked, whatever their order.
func TestBadOptions(t *testing.T) {
	good := WithPrefix("app_")
	for name, opt := range map[string]Option{
		"WithPrefix":      WithPrefix("keyturn; DROP TABLE x"),
		"WithWaiterLease": WithWaiterLease(time.Millisecond),
		"WithPoll":        WithPoll(0),
		"WithMaxConns":    WithMaxConns(0),
		"WithWaker":       WithWaker(nil),
		"WithLogger":      WithLogger(nil),
		"New":             nil,
	} {
		for _, opts := range [][]Option{{opt, good}, {good, opt}} {
			_, err := New(t.Context(), new(sql.DB), Postgres, opts...)
			var bad *driver.OptionError
			check(t, errors.As(err, &bad) && bad.Option == name, "%s: %v", name, err)
		}
	}
	for what, try := range map[string]func() (*Store, error){
		"no database": func() (*Store, error) { return New(t.Context(), nil, Postgres) },
		"no dialect":  func() (*Store, error) { return New(t.Context(), new(sql.DB), Dialect{}) },
		"a schema of no dialect": func() (*Store, error) {
			_, err := Schema(Dialect{})
			return nil, err
		},
		"a waker without messages": func() (*Store, error) {
			return New(t.Context(), new(sql.DB), SQLite, WithWaker(deaf{}))
		},
	} {
		if _, err := try(); !errors.Is(err, driver.ErrInvalidOption) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// deaf is a waker that hears nothing.
type deaf struct{}

func (deaf) Channel() string         { return "" }
func (deaf) Messages() <-chan string { return nil }
func (deaf) Server() (string, error) { return "", nil }
func (deaf) Close() error            { return nil }

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
