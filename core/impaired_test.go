package core_test

import (
	"errors"
	"testing"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/store/memstore"
)

// ailing is a store that says when it is impaired.
type ailing struct {
	*memstore.Store
	tell func(error)
}

func (a *ailing) Describe() driver.Description {
	d := a.Store.Describe()
	d.OnImpaired = func(f func(error)) { a.tell = f }
	return d
}

// impairments writes down what it is told.
type impairments struct {
	all []error
}

func (i *impairments) hooks() observe.Hooks {
	return observe.Hooks{StoreImpaired: i.StoreImpaired}
}

func (i *impairments) StoreImpaired(store string, err error) {
	if store != "memory" {
		err = errors.New("of the store " + store)
	}
	i.all = append(i.all, err)
}

// TestStoreImpaired: what the store says of itself is told to each observer.
func TestStoreImpaired(t *testing.T) {
	store := &ailing{Store: memstore.New()}
	var first, second impairments
	eng, err := core.New(store, core.WithHooks(first.hooks()), core.WithHooks(second.hooks()))
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close(t.Context())
	reason := errors.New("a limp")
	store.tell(reason)
	store.tell(nil)
	for _, o := range []impairments{first, second} {
		if len(o.all) != 2 || o.all[0] != reason || o.all[1] != nil {
			t.Errorf("told %v", o.all)
		}
	}
}

// TestStoreImpairedWithoutObserver: then there is nobody to tell.
func TestStoreImpairedWithoutObserver(t *testing.T) {
	store := &ailing{Store: memstore.New()}
	eng, err := core.New(store)
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close(t.Context())
	if store.tell != nil {
		t.Error("the store is to tell nobody")
	}
}
