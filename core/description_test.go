package core_test

import (
	"github.com/keyturn/keyturn/core/driver"
)

// described is a store that describes itself otherwise.
type described struct {
	driver.Store
	change func(*driver.Description)
}

func (d described) Describe() driver.Description {
	about := d.Store.Describe()
	d.change(&about)
	return about
}
