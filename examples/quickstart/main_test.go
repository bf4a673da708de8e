package main

func Example() {
	main()
	// Output: nobody else works on user 42
}
