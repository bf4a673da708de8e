package main_test

import (
	"fmt"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/keyturn/keyturn/core/drivertest/model"
	"github.com/keyturn/keyturn/internal/etcdtest"
	"github.com/keyturn/keyturn/store/etcdstore"
)

// TestEtcdDoesWhatTheModelDoes: leases are whole seconds there, so a program that lets them run out
// takes long. The others make waiters look so seldom that a watch that missed something shows.
func TestEtcdDoesWhatTheModelDoes(t *testing.T) {
	server := etcdtest.Start(t)
	for name, looks := range map[string]time.Duration{"often": 2 * time.Second, "seldom": seldom} {
		t.Run("looking "+name, func(t *testing.T) {
			t.Parallel()
			var clients [2]*clientv3.Client
			for i := range clients {
				c, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Addr()}, Logger: zap.NewNop()})
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				clients[i] = c
			}
			manyPrograms(t, func(program []model.Step) error {
				return onEtcd(t, program, clients, fmt.Sprintf("p%d/", prefixes.Add(1)), looks)
			})
		})
	}
}

// onEtcd runs a program on two processes, on a prefix of its own.
func onEtcd(t *testing.T, program []model.Step, clients [2]*clientv3.Client, prefix string, looks time.Duration) error {
	rig := model.Rig{Keys: keys, Sleep: time.Sleep, Settle: func() {}, Patience: 10 * time.Second, Prompt: looks == seldom}
	for _, client := range clients {
		store, err := etcdstore.New(t.Context(), client, etcdstore.WithPrefix(prefix), etcdstore.WithWaiterLease(looks))
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		rig.Stores = append(rig.Stores, store)
		rig.TTLs = store.Describe().TTLs
	}
	return rig.Run(program)
}
