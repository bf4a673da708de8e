package rivertest

import (
	"os"
	"testing"

	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/sqltest"
	_ "github.com/keyturn/keyturn/proof/drivers"
)

var must = checktest.Must

func TestMain(m *testing.M) { os.Exit(sqltest.Main(m).Run()) }
