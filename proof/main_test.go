package main_test

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/sqltest"
	_ "github.com/keyturn/keyturn/proof/drivers"
	"github.com/keyturn/keyturn/proof/member"
)

var must = checktest.Must

func TestMain(m *testing.M) {
	playPart()
	member.ActAsProcess()
	redis.SetLogger(quiet{}) // the connections of those that are killed
	goleak.VerifyTestMain(sqltest.Main(m))
}

type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}
