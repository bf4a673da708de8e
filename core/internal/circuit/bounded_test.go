package circuit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// Servers come and go, and each has another name. What is kept of them is bounded, and
// one that is out is not forgotten for it.
func TestPartsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Config{
			Silence:   time.Second,
			Partition: func(key string) string { return key },
			Log:       func(context.Context, slog.Level, string, ...any) {},
			Answered:  func() {},
		})
		ask := func(key string, err error) error {
			_, _, _, err = b.Ask(t.Context(), time.Now(), driver.Request{Claims: []driver.Claim{{Key: key}}},
				func(context.Context, driver.Request) (driver.Grant, *driver.Record, error) {
					return driver.Grant{}, nil, err
				})
			return err
		}
		for range 3 {
			_ = ask("sick", driver.ErrUnavailable)
			time.Sleep(time.Second / 2)
		}
		for i := range 1000 {
			if err := ask(fmt.Sprint("server", i), nil); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(*b.parts.Load()); n > mostParts {
			t.Errorf("%d states", n)
		}
		_ = ask("sick", driver.ErrUnavailable)
		if err := ask("sick", nil); !errors.Is(err, ErrOpen) {
			t.Errorf("the part that is out: %v", err)
		}
	})
}
