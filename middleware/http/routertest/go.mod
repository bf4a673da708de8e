// Never tagged: tests only.
module github.com/keyturn/keyturn/middleware/http/routertest

go 1.25.0

require (
	github.com/go-chi/chi/v5 v5.2.3
	github.com/keyturn/keyturn v0.0.0
	go.uber.org/goleak v1.3.0
)

require github.com/stretchr/testify v1.9.0 // indirect

replace github.com/keyturn/keyturn => ../../../
