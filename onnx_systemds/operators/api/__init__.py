"""What an author of an operator needs: the view of a node, fragments and forms."""
