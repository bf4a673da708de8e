package lockgrpc_test

import (
	"context"
	"errors"
	"testing"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/shadowtest"
)

func TestShadow(t *testing.T) {
	for _, kind := range []string{"call", "stream", "message"} {
		t.Run(kind, func(t *testing.T) {
			shadowtest.Run(t, func(t testing.TB, eng *core.Engine, once bool, handler func(context.Context) error, opts ...core.CallOption) func(string) error {
				g := guarded[kind]
				if once && kind != "call" {
					return nil
				} else if once {
					g = guarded["once"]
				}
				c := serve(t, working(handler), locks(t, eng, g.rule(opts...)))
				return func(id string) error { return g.send(bounded(t), c, id) }
			})
		})
	}
}

// A stream without messages has no key, and the handler sees its end.
func TestShadowOfAStreamWithoutMessages(t *testing.T) {
	c := serve(t, working(func(context.Context) error { return errors.New("there is no message") }),
		locks(t, memory(t), guarded["stream"].rule(core.WithShadow())))
	if err := importOne(bounded(t), c); err != nil {
		t.Error(err)
	}
}
