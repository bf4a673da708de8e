package main_test

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/internal/sqltest"
	_ "github.com/keyturn/keyturn/proof/drivers"
	"github.com/keyturn/keyturn/proof/member"
)

func TestMain(m *testing.M) {
	playPart()
	member.ActAsProcess()
	redis.SetLogger(quiet{}) // the connections of those that are killed
	goleak.VerifyTestMain(sqltest.Main(m))
}

// long skips a test in the short run, which has the contract of each store elsewhere, and simulations (make
// simulate). Here are histories, fleets, and programs on real servers, which take their time.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("for the long run")
	}
}

type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}
