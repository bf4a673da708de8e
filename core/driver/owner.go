package driver

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Owner is what the stored value of a lease tells about its holder. Every acquisition has
// an owner of its own: two goroutines of one process are strangers to each other, as two
// machines are.
type Owner struct {
	Host     string    // letters, digits and "._-"
	PID      int       // the process
	Instance int       // 1 for the first engine of that process, 2 for the second
	Start    time.Time // when that engine was made, to the second
	ID       string    // 128 random bits in hex
}

// String returns the form that is stored: host/pid/instance/start/id. It has letters,
// digits and "._-/" only. It never contains a colon, so a store may put one behind it and
// still compare owners exactly.
func (o Owner) String() string {
	return fmt.Sprintf("%s/%d/%d/%s/%s", o.Host, o.PID, o.Instance, strconv.FormatInt(o.Start.Unix(), 36), o.ID)
}

// ParseOwner reads the owners that an engine makes, as [HeldError], [Holder] and [Waiter]
// show them. Any other text, such as a foreign client's value, is an error.
func ParseOwner(s string) (Owner, error) {
	if parts := strings.Split(s, "/"); len(parts) == 5 {
		pid, _ := strconv.Atoi(parts[1]) // what is no number is written in another way
		instance, _ := strconv.Atoi(parts[2])
		start, _ := strconv.ParseInt(parts[3], 36, 64)
		id, err := hex.DecodeString(parts[4])
		o := Owner{Host: parts[0], PID: pid, Instance: instance, Start: time.Unix(start, 0), ID: parts[4]}
		if err == nil && len(id) == ownerIDBytes && o.Host == CleanHost(o.Host) && o.String() == s {
			return o, nil
		}
	}
	return Owner{}, fmt.Errorf("keyturn: %.200q is not an owner of keyturn's", s)
}

const ownerIDBytes = 16

// CleanHost returns host as an owner may have it: 64 bytes at most, with a dash for each
// character that is not a letter of ASCII, a digit, a dot, a dash or an underscore.
func CleanHost(host string) string {
	const most = 64
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune("._-", r):
			return r
		default:
			return '-'
		}
	}, host)
	if clean == "" {
		return "unknown"
	}
	return clean[:min(len(clean), most)]
}
