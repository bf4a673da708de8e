package sqltest

import (
	"context"
	"database/sql"
	"database/sql/driver"
)

// Connector connects to dsn by the driver of that name, for tests that stand between a pool and its connections.
func Connector(name, dsn string) (driver.Connector, error) {
	db, err := sql.Open(name, dsn)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	if d, ok := db.Driver().(driver.DriverContext); ok {
		return d.OpenConnector(dsn)
	}
	return connector{db.Driver(), dsn}, nil
}

// connector is one of a driver that has none.
type connector struct {
	driver driver.Driver
	dsn    string
}

func (c connector) Driver() driver.Driver                        { return c.driver }
func (c connector) Connect(context.Context) (driver.Conn, error) { return c.driver.Open(c.dsn) }
