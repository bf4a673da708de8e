package lifetime

import (
	"context"
	"errors"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

const (
	openPatience = 2 * time.Second
	openPause    = time.Second
)

// Open calls look, with which a new store asks its server what it wants to know. If the server does
// not answer within openPatience, Open returns nil all the same, so that a program can start before
// its store. look is then called again and again, until it has an answer or life ends. later gets an
// error of it that is an answer; nil errors are dropped.
func (l *Lifetime) Open(ctx, life context.Context, look func(context.Context) error, later func(error)) error {
	ask := func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, openPatience)
		defer cancel()
		return look(ctx)
	}
	if err := ask(ctx); !Silent(err) {
		return err
	}
	l.Go(func() {
		for {
			select {
			case <-time.After(openPause):
			case <-life.Done():
				return
			}
			if err := ask(life); !Silent(err) {
				if err != nil && life.Err() == nil {
					later(err)
				}
				return
			}
		}
	})
	return nil
}

// Silent reports whether err says that no server has answered.
func Silent(err error) bool {
	var out *driver.UnavailableError
	return errors.As(err, &out) && !out.Refused
}
