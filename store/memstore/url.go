package memstore

import (
	"context"
	"fmt"
	"sync"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/storeurl"
)

func init() { storeurl.Register("mem", storeurl.Scheme{Open: openURL}) }

// named has the memory of each name of a URL. They stay for as long as the process, as a backend
// stays when its clients go.
var named sync.Map

// openURL opens mem:, an empty store, or mem:NAME, the memory of that name in this process: all
// stores of the same name share their leases ([Store.Peer]).
func openURL(_ context.Context, u *storeurl.URL) (driver.Store, error) {
	if err := u.Params().Err(); err != nil {
		return nil, err
	}
	switch {
	case len(u.Hosts) > 0 || u.User != nil:
		return nil, fmt.Errorf("%w: memory has no host and no user: mem: or mem:NAME", storeurl.ErrInvalidURL)
	case u.Path == "":
		return New(), nil
	}
	mem, _ := named.LoadOrStore(u.Path, newMemory())
	return open(mem.(*memory)), nil
}
