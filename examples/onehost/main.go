// Onehost takes turns with the other processes of this machine, and does something once for all of
// them. Nothing needs to be installed: the locks are in a SQLite file. Start it in several terminals
// at once, and kill one of them.
//
//	go run ./examples/onehost -file locks.db
//
// The file survives all processes and the machine. A process that is killed keeps its key for the
// rest of the TTL. For several machines, put the URL of a server in place of the file.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"time"

	_ "modernc.org/sqlite" // the driver of database/sql

	"github.com/keyturn/keyturn/core"
	_ "github.com/keyturn/keyturn/store/sqlstore" // the scheme "sqlite"
	"github.com/keyturn/keyturn/store/storeurl"
)

func main() {
	file := flag.String("file", "locks.db", "the `name` of the file with the locks")
	turns := flag.Int("turns", 3, "how `many` turns to take")
	lasts := flag.Duration("lasts", time.Second, "the `time` that a turn lasts")
	flag.Parse()
	if err := run(context.Background(), *file, *turns, *lasts); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, file string, turns int, lasts time.Duration) error {
	url, err := storeurl.Parse("sqlite:" + file)
	if err != nil {
		return err
	}
	if err := url.Prepare(ctx); err != nil { // makes the file, unless it is there
		return err
	}
	store, err := url.Open(ctx)
	if err != nil {
		return err
	}
	eng, err := core.New(store, core.WithTTL(5*time.Second))
	if err != nil {
		return err
	}
	defer eng.Close(ctx)

	for range turns {
		err := eng.Do(ctx, "report", func(ctx context.Context) error {
			lease, _ := core.LeaseFrom(ctx)
			fmt.Printf("process %d has turn %d\n", os.Getpid(), lease.Token())
			time.Sleep(lasts)
			fmt.Printf("process %d is done with turn %d\n", os.Getpid(), lease.Token())
			return nil
		})
		if err != nil {
			return err
		}
	}
	out, err := eng.Once(ctx, "backup:"+time.Now().Format(time.DateOnly), func(context.Context) ([]byte, error) {
		return fmt.Appendf(nil, "made by process %d", os.Getpid()), nil
	})
	if err != nil {
		return err
	}
	fmt.Printf("today's backup was %s\n", out.Result)
	return nil
}
