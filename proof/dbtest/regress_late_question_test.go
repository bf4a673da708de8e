package dbtest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// A waiter gave up while a question of its own was under way. Its withdrawal overtook the question,
// which then put it back in the queue, or took the key for nobody, until that was undone.
func TestAQuestionIsOverBeforeItsWaiterWithdraws(t *testing.T) {
	t.Parallel()
	for name, dialect := range dialects {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := dialect.database(t)
			migrate(t, d)
			f := new(faulty)
			s := open(t, f.open(t, d), dialect.Dialect, quick...)
			other := open(t, d.Open(t), dialect.Dialect)
			g, err := other.Acquire(t.Context(), request("k", time.Minute))
			if err != nil {
				t.Fatal(err)
			}

			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			req, queued := request("k", time.Minute), make(chan struct{}, 1)
			req.Wait = true
			req.OnHeld = func(driver.HeldError) {
				select {
				case queued <- struct{}{}:
				default:
				}
			}
			result := make(chan error, 1)
			go func() {
				_, err := s.Acquire(ctx, req)
				result <- err
			}()
			<-queued
			held, onward := f.holdBack(isQuestion)
			defer onward()
			if err := other.Release(t.Context(), g); err != nil {
				t.Fatal(err)
			}
			<-held
			gaveUp := time.Now()
			cancel()
			select {
			case err := <-result:
				// On a busy machine the waiter may have lost its patience with the question.
				if after := time.Since(gaveUp); after < 200*time.Millisecond {
					t.Errorf("after %v, before its question: %v", after, err)
				}
			case <-time.After(20 * time.Millisecond):
				onward()
				if err := <-result; !errors.Is(err, driver.ErrHeld) {
					t.Error(err)
				}
			}
		})
	}
}

// isQuestion tells the question of a waiter from the looks and the signs of life of its process.
func isQuestion(query string) bool {
	return strings.HasPrefix(query, "BEGIN") || strings.HasPrefix(query, "START") || strings.Contains(query, "_lock SET")
}
