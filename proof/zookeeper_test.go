package main_test

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/drivertest/model"
	"github.com/keyturn/keyturn/internal/zktest"
	"github.com/keyturn/keyturn/store/zkstore"
)

// TestZooKeeperDoesWhatTheModelDoes runs programs on two processes. With long sessions, waiters look
// so seldom that a message which is missing shows.
func TestZooKeeperDoesWhatTheModelDoes(t *testing.T) {
	server := zktest.Start(t, "maxSessionTimeout=600000")
	for name, looks := range map[string]time.Duration{"often": often, "seldom": seldom} {
		t.Run("looking "+name, func(t *testing.T) {
			t.Parallel()
			manyPrograms(t, func(program []model.Step) error {
				return onZooKeeper(t, program, server.Addr(), fmt.Sprintf("/p%d", prefixes.Add(1)), looks)
			})
		})
	}
}

// onZooKeeper runs a program below a root of its own.
func onZooKeeper(t *testing.T, program []model.Step, addr, root string, looks time.Duration) error {
	rig := model.Rig{
		Keys: keys, Sleep: time.Sleep, Settle: func() {}, Patience: 5 * time.Second, Prompt: looks == seldom,
	}
	for range 2 {
		store, err := zkstore.New(t.Context(), []string{addr}, zkstore.WithRoot(root), zkstore.WithSession(looks), zkstore.WithLogger(slog.New(slog.DiscardHandler)))
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		rig.Stores = append(rig.Stores, store)
	}
	return rig.Run(program)
}
