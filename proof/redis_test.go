package main_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core/drivertest/model"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/store/redisstore"
)

// How often those look by themselves who wait, times three: where leases run out,
// which nobody tells them, often, and else hardly ever, or what they were not told
// would not be missed.
const (
	often  = 1500 * time.Millisecond
	seldom = 2 * time.Minute
)

// onRedis runs a program on two processes, on a prefix of its own.
func onRedis(t *testing.T, program []model.Step, clients [2]redis.UniversalClient, prefix string, looks time.Duration) error {
	rig := model.Rig{
		Keys: keys, Sleep: time.Sleep, Settle: func() {}, Patience: 5 * time.Second, Prompt: looks == seldom,
		Latitude: model.Latitude{Blurred: true},
	}
	_, rig.SeparateClaims = clients[0].(*redis.ClusterClient)
	for _, client := range clients {
		store, err := redisstore.New(client, redisstore.WithPrefix(prefix), redisstore.WithWaiterLease(looks))
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		rig.Stores = append(rig.Stores, store)
	}
	return rig.Run(program)
}

// TestRedisDoesWhatTheModelDoes waits for the network most of the time, so some
// go side by side.
func TestRedisDoesWhatTheModelDoes(t *testing.T) {
	server := redistest.Start(t)
	cluster := redistest.StartCluster(t, 1)[0]
	for name, looks := range map[string]time.Duration{"often": often, "seldom": seldom} {
		programsOnRedis(t, "single, looking "+name, [2]redis.UniversalClient{server.Client(), server.Client()}, looks)
		programsOnRedis(t, "cluster, looking "+name, [2]redis.UniversalClient{clusterClient(t, cluster), clusterClient(t, cluster)}, looks)
	}
}

// clusterClient takes a server for a part of a cluster, where a script has the
// keys of one claim only.
func clusterClient(t *testing.T, server *redistest.Server) redis.UniversalClient {
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{server.Addr()}})
	t.Cleanup(func() { _ = client.Close() })
	for deadline := time.Now().Add(10 * time.Second); client.Set(context.Background(), "x", "y", time.Millisecond).Err() != nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the cluster is not up")
		}
	}
	return client
}

// prefixes counts programs.
var prefixes atomic.Int64

func programsOnRedis(t *testing.T, name string, clients [2]redis.UniversalClient, looks time.Duration) {
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		manyPrograms(t, func(program []model.Step) error {
			return onRedis(t, program, clients, fmt.Sprintf("p%d:", prefixes.Add(1)), looks)
		})
	})
}
