//go:build unix

package redistest

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
)

func TestStartClusterSpreadsTheKeys(t *testing.T) {
	nodes := StartCluster(t, 3)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nodes[0].Addr()}})
	defer client.Close()
	const keys = 300
	for i := range keys {
		must(t, client.Set(t.Context(), fmt.Sprint("k", i), "v", 0).Err())
	}
	total := 0
	for _, node := range nodes {
		n := int(node.Client().DBSize(t.Context()).Val())
		check(t, n >= keys/6, "%s has %d of %d keys", node.Addr(), n, keys)
		total += n
	}
	check(t, total == keys, "%d keys in all, want %d", total, keys)
}
