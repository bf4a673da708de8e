package rivertest

import (
	"os"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/keyturn/keyturn/internal/sqltest"
	"github.com/keyturn/keyturn/internal/storetest"
	_ "github.com/keyturn/keyturn/proof/drivers"
)

var must = storetest.Must

type pgxTx = pgx.Tx

func TestMain(m *testing.M) { os.Exit(sqltest.Main(m).Run()) }
