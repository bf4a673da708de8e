package main_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/sqltest"
	_ "github.com/keyturn/keyturn/proof/drivers"
	"github.com/keyturn/keyturn/proof/member"
)

var must = checktest.Must

func TestMain(m *testing.M) {
	playPart()
	member.ActAsProcess()
	redistest.Quiet() // the connections of those that are killed
	goleak.VerifyTestMain(sqltest.Main(m))
}
