package redistest

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/internal/storetest"
)

var (
	must    = storetest.Must
	check   = storetest.Check
	require = storetest.Require
	wantNil = storetest.WantNil
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
