package redisstore

import (
	"testing"
	"time"

	"github.com/keyturn/keyturn/store/storeurl"
)

// All parameters that go-redis knows are for several servers, too. Their certificates are for their own names.
func TestParametersOfSeveralServers(t *testing.T) {
	u, _ := storeurl.Parse("rediss+cluster://a,b?skip_verify=true&max_active_conns=7&read_timeout=9s")
	o, err := parseSeveral(u, u.Params(), redisPort)
	check(t, err == nil && o.TLSConfig.ServerName == "" && o.TLSConfig.InsecureSkipVerify, "%+v, %v", o, err)
	check(t, o.MaxActiveConns == 7 && o.ReadTimeout == 9*time.Second && len(o.Addrs) == 2, "%+v", o)
}
