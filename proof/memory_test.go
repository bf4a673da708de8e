package main_test

import (
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/drivertest/model"
	"github.com/keyturn/keyturn/store/memstore"
)

// inMemory runs a program on two processes of a memstore, or on what wrap makes
// of each, in a bubble: time stands still while a step runs.
func inMemory(t *testing.T, program []model.Step, wrap func(*memstore.Store) driver.Store) (err error) {
	synctest.Test(t, func(*testing.T) {
		mem := memstore.New()
		rig := model.Rig{
			Stores: []driver.Store{wrap(mem), wrap(mem.Peer())}, Keys: keys,
			Sleep: time.Sleep, Settle: synctest.Wait, Exact: true,
		}
		err = rig.Run(program)
	})
	return err
}

func whole(s *memstore.Store) driver.Store { return s }

// rounds is how many times as many programs are run as rapid is told to check:
// they take a millisecond each.
const rounds = 10

func TestMemstoreDoesWhatTheModelDoes(t *testing.T) {
	for range rounds {
		rapid.Check(t, func(rt *rapid.T) {
			program := programs().Draw(rt, "program")
			if err := inMemory(t, program, whole); err != nil {
				rt.Fatal(err)
			}
		})
	}
}
