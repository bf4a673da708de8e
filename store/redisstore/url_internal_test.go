package redisstore

import (
	"testing"

	"github.com/keyturn/keyturn/store/storeurl"
)

// The certificates of several servers are for their own names, and skip_verify is for all of them.
func TestTLSOfSeveralServers(t *testing.T) {
	u, _ := storeurl.Parse("rediss+cluster://a,b?skip_verify=true")
	o, err := parseSeveral(u, u.Params(), redisPort)
	check(t, err == nil && o.TLSConfig.ServerName == "" && o.TLSConfig.InsecureSkipVerify, "%+v, %v", o, err)
}
