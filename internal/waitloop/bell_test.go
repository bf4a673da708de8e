package waitloop_test

import (
	"testing"

	"github.com/keyturn/keyturn/internal/waitloop"
)

func TestBell(t *testing.T) {
	b := waitloop.NewBell()
	b.Ring()
	b.Ring()
	<-b
	select {
	case <-b:
		t.Error("rung twice, heard twice")
	default:
	}
	b.Ring()
	b.Clear()
	b.Clear()
	select {
	case <-b:
		t.Error("heard after Clear")
	default:
	}
	var none waitloop.Bell
	none.Ring()
	none.Clear()
}
