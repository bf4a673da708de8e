package dbtest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/sqltest"
)

// A waiter gave up while a question of its own was under way. Its withdrawal overtook the question,
// which then put it back in the queue, or took the key for nobody, until that was undone.
func TestAQuestionIsOverBeforeItsWaiterWithdraws(t *testing.T) {
	onEach(t, func(t *testing.T, d *sqltest.Database) {
		f := new(faulty)
		s := open(t, f.open(t, d), dialectOf(d), quick...)
		other := open(t, d.Open(t), dialectOf(d))
		g := take(t, other, request("k", time.Minute))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		req, result := request("k", time.Minute), make(chan error, 1)
		queued, asked := make(chan struct{}), sync.Once{}
		req.Wait, req.OnHeld = true, func(driver.HeldError) { asked.Do(func() { close(queued) }) }
		go func() {
			_, err := s.Acquire(ctx, req)
			result <- err
		}()
		<-queued
		held, onward := f.holdBack(isQuestion)
		defer onward()
		must(t, other.Release(t.Context(), g))
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

// isQuestion tells the question of a waiter from the looks and the signs of life of its process.
func isQuestion(query string) bool {
	return strings.HasPrefix(query, "BEGIN") || strings.HasPrefix(query, "START") || strings.Contains(query, "_lock SET")
}
