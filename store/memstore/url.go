package memstore

import (
	"context"
	"fmt"
	"sync"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/storeurl"
)

func init() { storeurl.Register("mem", storeurl.Scheme{Open: openURL}) }

// named are the memories of URLs with a name. They stay for as long as the process, as a backend
// stays when its clients go.
var named struct {
	sync.Mutex
	memories map[string]*memory
}

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
	named.Lock()
	defer named.Unlock()
	mem := named.memories[u.Path]
	if mem == nil {
		mem = newMemory()
		if named.memories == nil {
			named.memories = make(map[string]*memory)
		}
		named.memories[u.Path] = mem
	}
	return open(mem), nil
}
