package redistest

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/internal/checktest"
)

var (
	must    = checktest.Must
	check   = checktest.That
	require = checktest.Require
	wantNil = checktest.WantNil
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
