module github.com/keyturn/keyturn

go 1.25.0
